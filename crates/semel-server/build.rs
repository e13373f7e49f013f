//! Lists the pages of `docs/errors`, so that the server carries all of them and none is forgotten.

use std::fmt::Write as _;
use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
        .filter(|name| name != "README")
        .collect();
    names.sort();
    let mut list = String::from("const PAGES: &[(&str, &str)] = &[\n");
    for name in &names {
        let file = folder.join(format!("{name}.md"));
        writeln!(list, "    ({name:?}, include_str!({:?})),", file.display().to_string())
            .expect("a text takes all");
    }
    list.push_str("];\n");
    let out = std::env::var("OUT_DIR").expect("cargo names the folder");
    std::fs::write(Path::new(&out).join("error_pages.rs"), list).expect("it is ours to write");
}
