//! Callbacks: whoever holds the token answers once. The token is the credential.

use semel_core::wire_answer::CalledBackView;

use super::steer::payload;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Access, Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::post(
        "/v1/callbacks/{token}",
        Access::Open,
        Operation::new("answer_callback", "Answer a callback: the body is the payload")
            .takes_payload()
            .returns::<CalledBackView>(),
        answer,
    )]
}

async fn answer(call: Call) -> Result<Reply, Problem> {
    let payload = payload(&call)?;
    let signalled = call.app.engine.call_back(call.param("token"), payload).await?;
    let repeated = signalled.repeated;
    Ok(Reply::ok(&CalledBackView { repeated }).replayed(repeated))
}
