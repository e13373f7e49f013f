//! The address of a store in a file: `sqlite:` and a path.

use std::path::PathBuf;

use crate::StoreError;

/// The file that an address names. Other libraries write `sqlite:///x.db` for a file in the current
/// folder and `sqlite::memory:` for none at all: taken literally, both would make a file where
/// nobody looks for it.
pub(crate) fn file_of(url: &str) -> Result<PathBuf, StoreError> {
    let path = url.strip_prefix("sqlite:").unwrap_or_default();
    let refused = |why: String| Err(StoreError::UrlInvalid(format!("`{url}`: {why}")));
    if path.is_empty() {
        return refused("the path of the file is missing; write `sqlite:semel.db`".into());
    }
    if path.starts_with(':') {
        let why = "a store in memory is `memory:`; a file is `sqlite:` and its path";
        return refused(why.into());
    }
    if path.starts_with("//") {
        let name = path.trim_start_matches('/');
        return refused(format!(
            "write `sqlite:{name}` for a file in the current folder, or `sqlite:/{name}` for an \
             absolute path"
        ));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_as_a_shell_takes_it() {
        for path in ["semel.db", "./a/b.db", "/var/lib/semel.db", "../x.db", "C:x.db", "a b.db"] {
            let url = format!("sqlite:{path}");
            assert_eq!(file_of(&url).expect(path), PathBuf::from(path));
        }
    }

    #[test]
    fn the_forms_of_other_libraries_are_refused_with_the_right_one() {
        for (url, right) in [
            ("sqlite:///x.db", "`sqlite:x.db`"),
            ("sqlite:////var/x.db", "`sqlite:/var/x.db`"),
            ("sqlite://x.db", "`sqlite:x.db`"),
            ("sqlite::memory:", "`memory:`"),
            ("sqlite:", "`sqlite:semel.db`"),
        ] {
            let refused = file_of(url).expect_err(url);
            assert!(matches!(refused, StoreError::UrlInvalid(_)), "{url}: {refused:?}");
            assert!(refused.to_string().contains(right), "{url}: {refused}");
        }
    }
}
