//! What a panic of the user's code says, and where it was.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

static HOOK: Once = Once::new();

thread_local! {
    /// Where the code of a workflow last panicked in this thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs code of the user's. A panic comes back as its message and its place.
pub(super) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(note_places);
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let place = PLACE.take().map(|place| format!(" at {place}"));
        let said = message(&*panic).map(|said| format!(": {said}"));
        let (place, said) = (place.unwrap_or_default(), said.unwrap_or_default());
        format!("the body of the workflow panicked{place}{said}")
    })
}

/// Only a hook is told where a panic was. The one before it still hears of each.
fn note_places() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if super::is_in_body() {
            PLACE.set(panic.location().map(ToString::to_string));
        }
        before(panic);
    }));
}

fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}
