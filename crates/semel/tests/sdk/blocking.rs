//! Code that blocks its thread: armed when a thread is ready, begun in time or not at all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use semel::{Failure, Semel};
use semel_engine::Engine;
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock, Query};

fn only_one_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(1).build().expect("a runtime")
}

/// The only thread is busy for longer than any permit: nothing is armed meanwhile.
#[test]
fn nothing_is_armed_before_a_blocking_thread_is_ready() {
    only_one_thread().block_on(async {
        let clock = ManualClock::new(1_700_000_000_000);
        let store = Arc::new(Memory::new(Clock::Manual(clock.clone())));
        let engine = Engine::new(store, "worker-1").expect("an engine");
        let semel = Semel::on(engine.clone());
        let (free, busy) = mpsc::channel::<()>();
        let holder = tokio::task::spawn_blocking(move || busy.recv());
        let sends = Arc::new(AtomicU32::new(0));
        let counted = sends.clone();
        let caller = tokio::spawn(async move {
            let send = move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Failure>(1_u32)
            };
            semel.effect("charge").key("k").call_blocking(send).await
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        clock.advance_ms(600_000);
        let page = engine.list(&Query::everywhere(10)).await.expect("a list");
        assert!(page.effects.is_empty(), "armed, and nobody is there: {:?}", page.effects);
        free.send(()).expect("the thread waits");
        holder.await.expect("no panic").expect("it was told");
        assert_eq!(caller.await.expect("no panic").expect("sent"), 1);
        let page = engine.list(&Query::everywhere(10)).await.expect("a list");
        assert_eq!((sends.load(Ordering::SeqCst), page.effects[0].attempts.len()), (1, 1));
    });
}
