//! Things that one run at a time acts on.

use semel_engine::{Port, Work};

use crate::Error;

/// An entity that this run alone may act on.
pub struct Entity {
    pub(super) port: Port,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) fence: u64,
}

impl Entity {
    /// Grows with each grant of the entity: for whatever outside can compare it.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Lets the entity go before the run ends.
    pub async fn leave(self) -> Result<(), Error> {
        let id = self.port.next_id(&format!("leave {}", self.name));
        let what = format!("leave {}", self.id);
        let work = Work::Leave { entered: self.id, name: self.name };
        self.port.command(id, what, work).await.map(|_| ())
    }
}
