//! `probe`: the destination can be asked whether something is there.

use super::{Evidence, Seen};

pub(super) fn evidence(seen: &Seen) -> Vec<Evidence> {
    let name = "search";
    let Some(search) = &seen.search else {
        return vec![Evidence::open(name, "search: no creation was looked up (--lookup)")];
    };
    if search.before > 0 {
        let fact = format!("it finds {} where nothing was created", search.before);
        return vec![Evidence::broken(name, fact)];
    }
    match search.after {
        0 => vec![Evidence::broken(name, "what was created is not found")],
        1 if search.visible_ms == 0 => {
            vec![Evidence::holds(name, "found at once after it was created, and not before")]
        }
        1 => {
            let fact = format!(
                "found after it was created, and not before; it took {} ms, so let the settle \
                 window be longer",
                search.visible_ms
            );
            vec![Evidence::holds(name, fact)]
        }
        count => vec![Evidence::broken(name, format!("one creation, and {count} are found"))],
    }
}
