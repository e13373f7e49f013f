//! Roles, tokens, methods, binds.

use std::net::SocketAddr;
use std::time::Duration;

use semel_core::access::{Permission, Role};
use semel_server::{Limits, Server, Settings};
use serde_json::json;

use crate::door::{Door, file, on_both, on_file, send};
use crate::sweep::operations;

#[tokio::test]
async fn sec_6_every_role_meets_every_route_with_the_verdict_of_the_table() {
    on_file(Limits::default(), async |door| {
        let mut verdicts = 0;
        for role in Role::ALL {
            let asked = door.to("acme", role).await;
            for operation in operations() {
                let Some(permission) = &operation.permission else { continue };
                let permission = Permission::ALL.into_iter().find(|one| one.as_str() == permission);
                let may = role.may(permission.expect("a permission that there is"));
                let path = operation.path.replace(['{', '}'], "");
                let request = asked.request(&operation.method, &path);
                let request = request.timeout(Duration::from_secs(20)).json(&json!({}));
                let answer = send(request).await;
                let (method, role) = (&operation.method, role.as_str());
                assert_ne!(answer.status, 401, "{role} {method} {path}");
                assert_eq!(answer.status != 403, may, "{role} {method} {path}: {}", answer.text);
                verdicts += 1;
            }
        }
        assert!(verdicts > 150, "{verdicts}");
    })
    .await;
}

#[tokio::test]
async fn sec_7_every_route_but_a_few_asks_for_a_permission() {
    let open: Vec<_> = operations().into_iter().filter(|one| one.permission.is_none()).collect();
    let open: Vec<_> = open.iter().map(|one| one.path.as_str()).collect();
    let known = [
        "/approve/{token}",
        "/console",
        "/console/",
        "/docs",
        "/errors/{code}",
        "/healthz",
        "/hooks/{namespace}/{trigger}",
        "/hooks/{trigger}",
        "/openapi.json",
        "/readyz",
        "/metrics",
        "/v1/callbacks/{token}",
    ];
    for path in open {
        let is_page = path.starts_with("/console");
        assert!(is_page || known.contains(&path), "{path} asks for no permission");
    }
}

#[tokio::test]
async fn sec_8_a_method_that_is_not_declared_gets_one_constant_answer() {
    on_file(Limits::default(), async |door| {
        let mut seen = Vec::new();
        for (method, path) in [
            ("DELETE", "/v1/effects"),
            ("PATCH", "/v1/runs"),
            ("PUT", "/v1/effects/begin"),
            ("TRACE", "/v1/gate"),
        ] {
            let answer = send(door.request(method, path)).await.refused(405, "method_not_allowed");
            let (status, body, _) = answer.comparable();
            seen.push((status, body));
        }
        seen.dedup();
        assert_eq!(seen.len(), 1);
        door.get("/v1/unknown").await.refused(404, "not_found");
    })
    .await;
}

#[tokio::test]
async fn sec_11_a_revoked_token_is_refused_within_a_second() {
    on_both(async |door| {
        let admin = door.to("acme", Role::Admin).await;
        let made = json!({ "label": "ci", "role": "worker", "expires_in": "90d" });
        let made = admin.post("/v1/tokens", &made).await.is(201).json();
        let worker = door.with(made["token"].as_str().unwrap());
        worker.get("/v1/runs").await.is(200);
        let revoke = format!("/v1/tokens/{}/revoke", made["id"].as_str().unwrap());
        send(admin.request("POST", &revoke)).await.is(200);
        tokio::time::sleep(Duration::from_millis(900)).await;
        worker.get("/v1/runs").await.refused(401, "unauthenticated");
        let audit = admin.get("/v1/audit").await.is(200).json();
        let verbs: Vec<_> =
            audit["items"].as_array().unwrap().iter().map(|one| &one["verb"]).collect();
        assert_eq!(verbs[..2], ["revoke_token", "create_token"]);
        assert!(!audit.to_string().contains(made["token"].as_str().unwrap()));
    })
    .await;
}

#[tokio::test]
async fn a_token_counts_in_a_header_of_its_own_where_tools_cannot_set_the_usual_one() {
    on_both(async |door| {
        let token = door.token("acme", Role::Worker).await;
        let wish = json!({ "action": "mail", "key": "k", "input": 1 });
        let asked = |token: &str| {
            let request = door.request("POST", "/v1/effects/begin").json(&wish);
            request.header("x-semel-token", token)
        };
        send(asked(&token)).await.is(200);
        assert_eq!(door.with(&token).count().await, 1, "in the namespace of the token");
        let bare = send(asked("")).await.refused(401, "unauthenticated");
        assert_eq!(bare.header("www-authenticate"), Some("Bearer"));
        let (rest, last) = token.split_at(token.len() - 1);
        let twisted = format!("{rest}{}", if last == "0" { "1" } else { "0" });
        let elsewhere = token.replace("semel_acme.", "semel_bolt.");
        for wrong in [twisted, elsewhere, format!("Bearer {token}"), "nonsense".to_owned()] {
            let answer = send(asked(&wrong)).await.refused(401, "unauthenticated");
            assert_eq!(answer.comparable(), bare.comparable(), "{wrong}");
        }
        // A wrong token in the usual header is not made good by a right one in the other.
        let both = asked(&token).bearer_auth("nonsense");
        send(both).await.refused(401, "unauthenticated");
        let viewer = door.token("acme", Role::Viewer).await;
        send(asked(&viewer)).await.refused(403, "forbidden");
    })
    .await;
}

#[tokio::test]
async fn sec_12_only_an_admin_makes_tokens_and_only_of_its_own_namespace() {
    on_file(Limits::default(), async |door| {
        let operator = door.to("acme", Role::Operator).await;
        let ask = json!({ "label": "x", "role": "admin" });
        operator.post("/v1/tokens", &ask).await.refused(403, "forbidden");
        let admin = door.to("acme", Role::Admin).await;
        let wide = json!({ "label": "x", "role": "admin", "namespace": "bolt" });
        admin.post("/v1/tokens", &wide).await.refused(400, "request_invalid");
        let made = admin.post("/v1/tokens", &ask).await.is(201).json();
        assert!(made["token"].as_str().unwrap().starts_with("semel_acme."));
        let acme = semel_core::key::Namespace::new("acme").unwrap();
        let brief = door.app.engine().create_token(&acme, ("x", Role::Admin), Some(60_000), "t");
        let brief = door.with(&brief.await.unwrap().0);
        for asked in [json!(null), json!("90d")] {
            let ask = json!({ "label": "x", "role": "viewer", "expires_in": asked });
            let made = brief.post("/v1/tokens", &ask).await.is(201).json();
            let left = made["expires_at"].as_str().unwrap().to_owned();
            let own = admin.get("/v1/tokens").await.is(200).json();
            let own = own["items"].as_array().unwrap().iter();
            let last = own.filter_map(|one| one["expires_at"].as_str()).max().unwrap().to_owned();
            assert!(left <= last, "{left} is after {last}: nobody gives away more than they have");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_11_a_token_that_is_revoked_while_it_waits_is_not_answered() {
    on_both(async |door| {
        let admin = door.to("acme", Role::Admin).await;
        let ask = json!({ "label": "x", "role": "viewer" });
        let made = admin.post("/v1/tokens", &ask).await.is(201).json();
        let viewer = door.with(made["token"].as_str().unwrap());
        let run = admin.post("/v1/workflows/w/runs", &json!({})).await.is(201).json();
        let path = format!("/v1/runs/{}/result?wait=3s", run["id"].as_str().unwrap());
        let revoke = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let path = format!("/v1/tokens/{}/revoke", made["id"].as_str().unwrap());
            admin.post(&path, &json!({})).await.is(200);
        };
        let (answer, ()) = tokio::join!(viewer.get(&path), revoke);
        answer.refused(401, "unauthenticated");
    })
    .await;
}

#[tokio::test]
async fn sec_13_anything_but_the_loopback_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let store = file(&folder);
    let listen: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let refused = Server::bind(Settings::new(&store, listen)).await.err().unwrap().to_string();
    assert!(refused.contains("semel tokens create") && refused.contains("tls"), "{refused}");
    let door = Door::on(&store, Limits::default()).await;
    door.token("acme", Role::Admin).await;
    let server = Server::bind(Settings::new(&store, listen)).await.unwrap();
    assert!(server.address().is_ok());
}
