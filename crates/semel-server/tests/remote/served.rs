//! A server on the loopback, in this process.

use std::net::SocketAddr;
use std::sync::Arc;

use semel_core::access::{self, Role};
use semel_core::key::Namespace;
use semel_engine::Engine;
use semel_server::{App, Server, Settings};
use semel_store::remote::Remote;
use semel_store::{Access, Card, Clock, Opened, Store, Veil, Write};
use tokio::sync::oneshot;

/// A server until it is dropped.
pub(crate) struct Served {
    pub(crate) url: String,
    /// The store behind it, to look past the server.
    pub(crate) store: Arc<dyn Store>,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<()>,
}

impl Served {
    /// With the job of its engine, as users run it.
    pub(crate) async fn start(store: &str) -> Served {
        Served::on(store, true, "127.0.0.1:0".parse().expect("an address")).await
    }

    /// The same at an address.
    pub(crate) async fn at(store: &str, address: SocketAddr) -> Served {
        Served::on(store, true, address).await
    }

    /// Ends it as a person does, and waits for that.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.ended.await.expect("it ends");
    }

    /// Without it: nothing happens but what a test does.
    pub(crate) async fn quiet(store: &str) -> Served {
        Served::on(store, false, "127.0.0.1:0".parse().expect("an address")).await
    }

    /// With secrets of its own to look for.
    pub(crate) async fn veiled(store: &str, veil: Veil) -> Served {
        Served::opened(store, veil, true, "127.0.0.1:0".parse().expect("an address")).await
    }

    async fn on(store: &str, works: bool, address: SocketAddr) -> Served {
        Served::opened(store, Veil::default(), works, address).await
    }

    async fn opened(store: &str, veil: Veil, works: bool, address: SocketAddr) -> Served {
        let opened = Opened::open_veiled(store, Access::ReadWrite, Clock::Real, veil).await;
        let opened = opened.expect("a store");
        let engine = Engine::on(&opened, "server").expect("an engine");
        if works {
            engine.start();
        }
        let below = opened.store();
        let settings = Settings::new(store, address);
        let app = App::on(engine, opened, settings).expect("a state");
        let server = Server::on(app).await.expect("it binds");
        let url = format!("http://{}", server.address().expect("an address"));
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(async {
            let run = server.run(async {
                let _ = stopped.await;
            });
            run.await.expect("it serves");
        });
        Served { url, store: below, stop, ended }
    }

    /// A token of a role in a namespace.
    pub(crate) async fn token(&self, namespace: &str, role: Role) -> String {
        let namespace = Namespace::new(namespace).expect("a namespace");
        let mut bytes = [0; 38];
        getrandom::fill(&mut bytes).expect("chance");
        let (id, secret) = bytes.split_at(6);
        let chance = (id.try_into().expect("six"), secret.try_into().expect("thirty-two"));
        let now = self.store.ground().now.wall;
        let (text, token) = access::mint(&namespace, ("test", role), chance, now, None);
        let card = Card {
            namespace: namespace.as_str().to_owned(),
            kind: access::CARD.to_owned(),
            name: token.id.clone(),
            version: 1,
            due: None,
            record: serde_json::to_string(&token).expect("plain data"),
        };
        self.store.commit(Write::Card(card).into()).await.expect("it is written");
        text
    }

    /// The store as somebody with a token has it.
    pub(crate) async fn remote(&self, token: &str) -> Remote {
        let opened = Remote::open(&self.url, Some(token), Access::ReadWrite, Clock::Real).await;
        opened.expect("the server answers")
    }
}
