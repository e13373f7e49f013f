//! A proof as one page for browsers: no script, nothing from outside, everything escaped.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use semel_core::proof::{Claim, Document, Statement, Verdict};

use super::html_parts::{effect, run};

const STYLE: &str = include_str!("page.css");

/// Nothing may be loaded, run or sent, whatever a payload contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
form-action 'none'";

/// The whole page.
pub(super) fn page(statement: &Statement, document: &Document) -> String {
    let Statement { about, name, namespace, at, verdict, .. } = statement;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Proof of " (name) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Proof of the " (about) " " code { (name) } }
                p { "Namespace " code { (namespace) } ", as of " (at) ", epoch " (statement.epoch) }
                (banner(verdict))
                @if let Some(span) = &statement.quarantine {
                    p class="verdict doubt" {
                        "The store went back in time: a quarantine is open since " (span.opened_at)
                        "."
                    }
                }
                (claims("Broken", &verdict.broken))
                (claims("Proven", &verdict.proven))
                (claims("Not proven", &verdict.not_proven))
                @if let Some(one) = &statement.run { (run(one)) }
                @for one in &statement.effects { (effect(one, statement.run.is_some())) }
                (footer(document))
            }
        }
    };
    page.into_string()
}

/// The finding, in one sentence.
pub(super) fn banner(verdict: &Verdict) -> Markup {
    html! {
        p class={ "verdict " (class(verdict.finding)) } {
            strong { (verdict.finding) } ": " (verdict.says.to_string())
        }
    }
}

fn class(finding: &str) -> &'static str {
    match super::text::tone(finding) {
        crate::print::Tone::Good => "good",
        crate::print::Tone::Bad => "bad",
        crate::print::Tone::Doubt => "doubt",
        crate::print::Tone::Quiet | crate::print::Tone::Strong => "quiet",
    }
}

pub(super) fn claims(title: &str, claims: &[Claim]) -> Markup {
    html! {
        @if !claims.is_empty() {
            h3 { (title) }
            ul {
                @for Claim { says, evidence } in claims {
                    li { (says.to_string()) small { (evidence) } }
                }
            }
        }
    }
}

fn footer(document: &Document) -> Markup {
    html! {
        footer {
            @match &document.signature {
                Some(signature) => p {
                    "The document behind this page is signed by the key "
                    code { (signature.public_key) }
                    "."
                },
                None => p { "The document behind this page is not signed." },
            }
            p {
                "This page shows what the document says; only the document can be checked: "
                code { "semel proof verify FILE" }
                "."
            }
        }
    }
}
