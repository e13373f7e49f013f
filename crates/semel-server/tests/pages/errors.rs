//! What a code means, where a problem says that it is explained.

use reqwest::Method;
use semel_core::code::Code;
use serde_json::Value;

use crate::stage::{Stage, check_markup, seen};

#[tokio::test]
async fn every_code_has_a_page_where_problems_point_to() {
    let stage = Stage::new().await;
    for code in Code::ALL {
        let page = stage.get(&format!("/errors/{code}")).await.expect(200);
        check_markup(&page.text, code.as_str());
        page.says(&[code.as_str(), "What to do"]);
    }
    for name in ["nothing", "README", "..%2Freadme", "NOT_FOUND", "%3Cb%3E"] {
        let page = stage.get(&format!("/errors/{name}")).await.expect(404);
        check_markup(&page.text, name);
    }
    let problem = seen(stage.request(Method::GET, "/v1/runs/nothing")).await.expect(404);
    let problem: Value = serde_json::from_str(&problem.text).unwrap();
    stage.get(problem["type"].as_str().unwrap()).await.expect(200).says(&["not_found"]);
    let described = semel_server::openapi_document();
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/approvals/{id}/links"));
    assert!(!paths.keys().any(|path| path.starts_with("/console")), "pages are no API");
}
