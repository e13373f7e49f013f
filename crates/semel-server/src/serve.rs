//! Sockets: accepting, TLS, and an end that lets open requests finish.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use semel_core::code::Code;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use crate::app::{App, OpenError};
use crate::problem::Problem;
use crate::request::{answer, stray};
use crate::route::Route;
use crate::settings::Settings;
use crate::{api, hooks, openapi, tls};

/// Sockets beyond the limit that may still ask how the server is, and for how long each may take.
const SPARE_CONNECTIONS: usize = 64;
const SPARE_READ: Duration = Duration::from_secs(1);

/// A server that has its socket.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Server {
    /// Opens the store and binds. Anything but the loopback needs tokens: without one, whoever
    /// reaches the port would be admin.
    pub async fn bind(settings: Settings) -> Result<Server, OpenError> {
        let app = App::open(settings).await?;
        hooks::put_declared(&app).await?;
        Server::on(app).await
    }

    /// Binds for a state that was built elsewhere.
    pub async fn on(app: Arc<App>) -> Result<Server, OpenError> {
        let listen = app.settings.listen;
        if !listen.ip().is_loopback() && !has_tokens(&app).await? {
            return Err(OpenError::Refused(format!(
                "{listen} is not the loopback, and there is no token yet: whoever reaches it would \
                 be admin. Make one with `semel tokens create --role admin`, or listen on \
                 127.0.0.1; TLS is added by `tls.cert` and `tls.key`"
            )));
        }
        let tls = app.settings.tls.as_ref().map(tls::acceptor).transpose()?;
        if tls.is_none() && !listen.ip().is_loopback() {
            tracing::warn!(%listen, "tokens travel in the clear: set tls.cert and tls.key");
        }
        let listener = TcpListener::bind(listen).await?;
        Ok(Server { app, listener, tls })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, OpenError> {
        Ok(self.listener.local_addr()?)
    }

    /// Its state, for whoever embeds it.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Serves until `shutdown` is ready, then lets open requests finish, and ends with the store.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), OpenError> {
        let Server { app, listener, tls } = self;
        let graceful = GracefulShutdown::new();
        let limits = app.settings.limits;
        let seats = [
            Seats::new(limits.connections, router(&app), Duration::from_millis(limits.read_ms)),
            Seats::new(SPARE_CONNECTIONS, full(&app), SPARE_READ),
        ];
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Out of file descriptors, for instance: others will be closed.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let mut free = seats.iter().filter_map(|one| Some((one, one.take()?)));
            // With no seat at all it is closed at once: the client sees that, and comes again.
            let Some((seats, seat)) = free.next() else { continue };
            let connection = Connection {
                router: seats.router.clone(),
                header_bytes: limits.header_bytes,
                read: seats.read,
                watcher: graceful.watcher(),
            };
            let tls = tls.clone();
            tokio::spawn(async move {
                connection.serve(stream, tls).await;
                drop(seat);
            });
        }
        app.drain();
        drop(listener);
        let patience = Duration::from_millis(app.settings.limits.drain_ms);
        let _ = tokio::time::timeout(patience, graceful.shutdown()).await;
        app.engine.write_repeats().await;
        app.engine.write_deliveries().await;
        Ok(())
    }
}

async fn has_tokens(app: &App) -> Result<bool, OpenError> {
    app.has_tokens().await.map_err(|problem| OpenError::Refused(problem.detail))
}

/// Places for connections, and what those who have one may ask.
struct Seats {
    free: Arc<Semaphore>,
    router: Router,
    read: Duration,
}

impl Seats {
    fn new(count: usize, router: Router, read: Duration) -> Seats {
        Seats { free: Arc::new(Semaphore::new(count)), router, read }
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }
}

struct Connection {
    router: Router,
    header_bytes: usize,
    read: Duration,
    watcher: hyper_util::server::graceful::Watcher,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.speak(stream).await,
            Some(tls) => {
                if let Some(stream) = tls::accept(&tls, stream, self.read).await {
                    self.speak(stream).await;
                }
            }
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let service = TowerToHyperService::new(self.router);
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.read)
            // The buffer also takes bodies; the head is refused when it does not fit.
            .max_buf_size(self.header_bytes.max(8_192))
            .max_headers(100);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        // A broken connection is the client's affair.
        let _ = self.watcher.watch(connection).await;
    }
}

/// All routes. Each one's description must be whole, or the server does not boot.
fn router(app: &Arc<App>) -> Router {
    let routes = api::routes();
    openapi::check(&routes);
    let mut router: Router<Arc<App>> = Router::new();
    for route in routes {
        router = router.route(route.path, method(Arc::new(route)));
    }
    let unknown = |State(app): State<Arc<App>>, request: Request| async move {
        stray(&app, &request, &Problem::not_found())
    };
    let method = |State(app): State<Arc<App>>, request: Request| async move {
        let text = "the path has no such method";
        stray(&app, &request, &Problem::new(Code::MethodNotAllowed, text))
    };
    router.fallback(unknown).method_not_allowed_fallback(method).with_state(app.clone())
}

/// What is answered when there are as many connections as there may be: probes, and that it is
/// full.
fn full(app: &Arc<App>) -> Router {
    let mut router: Router<Arc<App>> = Router::new();
    for route in api::routes().into_iter().filter(|route| route.operation.is_probe) {
        router = router.route(route.path, method(Arc::new(route)));
    }
    let full = |State(app): State<Arc<App>>, request: Request| async move {
        let text = "too many connections are open";
        stray(&app, &request, &Problem::new(Code::Overloaded, text).retry_after(1_000))
    };
    router.fallback(full).method_not_allowed_fallback(full).with_state(app.clone())
}

fn method(route: Arc<Route>) -> MethodRouter<Arc<App>> {
    let filter = match route.method {
        Method::GET => MethodFilter::GET,
        Method::PUT => MethodFilter::PUT,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::POST,
    };
    type Path = Result<RawPathParams, RawPathParamsRejection>;
    on(filter, move |State(app): State<Arc<App>>, path: Path, request: Request| {
        let route = route.clone();
        async move {
            match path {
                Ok(path) => answer(app, route, path, request).await,
                // What is no text names nothing.
                Err(_) => stray(&app, &request, &Problem::not_found()),
            }
        }
    })
}
