mod support;
use support::{Folder, beside, block_on, put};
#[test]
fn probe() {
    let mut left = 0;
    for _ in 0..150 {
        let folder = Folder::new();
        let store = folder.open();
        block_on(put(&store, "k", 100)).expect("x");
        folder.close(store);
        left += usize::from(beside(&folder.store(), "-wal").exists());
    }
    panic!("left behind: {left} of 150");
}
