//! What this server keeps, takes and promises, for machines.

use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::fingerprint::FORM;
use semel_core::limits;
use semel_core::record::Contract;
use semel_core::time::format_duration_ms;
use serde_json::{Value, json};

use crate::openapi::{Object, Operation};
use crate::problem::{Problem, status};
use crate::route::Access::Needs;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        "/v1/capabilities",
        Needs(Permission::Follow),
        Operation::new("show_capabilities", "Limits, windows and rules, machine-readable")
            .returns::<Object>(),
        show,
    )]
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let settings = &call.app.settings;
    let duration = format_duration_ms;
    let contracts = [
        Contract::NativeKey { retention_ms: 0 },
        Contract::Conditional,
        Contract::Probe { first: false },
        Contract::AtMostOnce,
        Contract::Harmless,
    ];
    let contracts: Vec<Value> = contracts
        .iter()
        .map(|one| json!({ "name": one.name(), "promise": one.promise() }))
        .collect();
    let codes: Vec<Value> = Code::ALL
        .iter()
        .map(|code| json!({ "code": code.as_str(), "status": status(*code).as_u16() }))
        .collect();
    Ok(Reply::ok(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "namespace": call.who.namespace.as_str(),
        "role": call.who.role.as_str(),
        "key": {
            "bytes_max": limits::KEY_BYTES_MAX,
            "case_sensitive": true,
            "control_characters": false,
            "header": "Idempotency-Key",
            "forms": ["bare", "quoted"],
        },
        "fingerprint": { "form": FORM, "depth_max": limits::JSON_DEPTH_MAX },
        "windows": {
            "replay": duration(limits::WINDOW_MS),
            "tombstone": duration(limits::TOMBSTONE_MS),
            "lease": duration(limits::LEASE_MS),
            "deadline": duration(limits::DEADLINE_MS),
            "settle": duration(limits::SETTLE_MS),
            "hold": duration(settings.limits.hold_ms),
        },
        "limits": {
            "body_bytes": settings.limits.body_bytes,
            "header_bytes": settings.limits.header_bytes,
            "value_bytes": limits::VALUE_BYTES_MAX,
            "page_rows": limits::PAGE_ROWS_MAX,
            "requests_in_flight": settings.limits.requests_in_flight,
            "requests_per_namespace": settings.limits.requests_per_namespace,
            "new_keys_per_second": settings.limits.new_keys_per_second,
        },
        "contracts": contracts,
        "codes": codes,
    })))
}
