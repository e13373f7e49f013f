//! The mail server with a real client: the one of the example, and so what its failures prove.

use std::time::Duration;

use semel::{Code, Retry, Semel};
use serde_json::json;
use tempfile::TempDir;
use triage::{Mail, Services, Settings};

use super::{mails, serve};

struct World {
    dir: TempDir,
    semel: Semel,
    services: Services,
}

impl World {
    async fn start() -> World {
        let dir = tempfile::tempdir().unwrap();
        tokio::spawn(serve(dir.path().to_owned()));
        let address = dir.path().join("mail.addr");
        while !address.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        World::at(&std::fs::read_to_string(address).unwrap(), dir).await
    }

    async fn at(mail: &str, dir: TempDir) -> World {
        let nowhere = "http://127.0.0.1:9".to_owned();
        let services = Services::new(Settings {
            model: nowhere.clone(),
            crm: nowhere,
            mail: mail.to_owned(),
            settle_window: Duration::from_secs(1),
            lease: Duration::from_secs(30),
        });
        let semel = Semel::open("memory:").await.unwrap();
        World { dir, semel, services: services.unwrap() }
    }

    async fn send(&self, recipient: &str) -> Result<Mail, semel::Error> {
        let services = self.services.clone();
        self.semel
            .effect("ack-mail")
            .key([recipient])
            .input(&json!({ "recipient": recipient, "ticket": "T-1" }))
            .retry(Retry::NONE)
            .deadline(Duration::from_millis(2_000))
            .settle_window(Duration::from_secs(1))
            .call(move |intent| services.clone().acknowledge(intent))
            .await
    }

    async fn state(&self, recipient: &str) -> String {
        let effect = self.semel.find("ack-mail", [recipient]).await.unwrap().unwrap();
        effect.state(&self.semel.engine().store().ground().now).to_string()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_mail_is_kept_under_the_id_of_its_intent() {
    let world = World::start().await;
    let sent = world.send("ada@customer.example").await.unwrap();
    let kept = mails(world.dir.path()).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].message_id.as_deref(), Some(sent.message_id.as_str()));
    assert_eq!(kept[0].to, ["ada@customer.example"]);
    assert!(kept[0].text.contains("Your request is now ticket T-1."), "{}", kept[0].text);
    let effect = world.semel.find("ack-mail", ["ada@customer.example"]).await.unwrap().unwrap();
    let plan = effect.plan.expect("it was begun");
    assert!(sent.message_id.contains(&plan.downstream_key), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_answer_is_a_refusal_and_a_transient_one_a_proof_that_it_may_be_sent_again() {
    let world = World::start().await;
    let refused = world.send("refused@customer.example").await.unwrap_err();
    assert_eq!(refused.code(), Code::EffectFailed, "{refused}");
    let later = world.send("later@customer.example").await.unwrap_err();
    assert!(later.detail().contains("451"), "{later}");
    assert_eq!(world.state("refused@customer.example").await, "failed");
    assert_eq!(world.state("later@customer.example").await, "planned");
    assert!(mails(world.dir.path()).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_has_taken_nothing() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let world = World::at(&address, tempfile::tempdir().unwrap()).await;
    world.send("ada@customer.example").await.unwrap_err();
    assert_eq!(world.state("ada@customer.example").await, "planned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_is_accepted_without_a_word_is_in_doubt_and_not_sent_again() {
    let world = World::start().await;
    for (number, recipient) in ["hang@customer.example", "cut@customer.example"].iter().enumerate()
    {
        let cut = world.send(recipient).await.unwrap_err();
        assert_eq!(cut.code(), Code::InDoubt, "{recipient}: {cut}");
        assert_eq!(world.state(recipient).await, "in_doubt", "{recipient}");
        assert_eq!(mails(world.dir.path()).unwrap().len(), number + 1);
        assert_eq!(world.send(recipient).await.unwrap_err().code(), Code::InDoubt);
        assert_eq!(mails(world.dir.path()).unwrap().len(), number + 1, "{recipient}: sent again");
    }
}
