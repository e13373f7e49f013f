//! What the receipt of an effect looks like, where its author says so.

use semel_core::json::Json;
use semel_core::shape;
use serde::Serialize;

use super::Effect;
use crate::{Code, Error};

impl Effect<'_> {
    /// What the receipt looks like, as JSON Schema, up to 8 KiB: for example what `schemars` makes
    /// of the type that the effect returns. It is stored with the effect. A receipt that a person
    /// gives for a doubt must fit it; the command, the API and the console refuse another one with
    /// `receipt_invalid` and say what fits. Without it every receipt is taken, and one that cannot
    /// be read as the effect's type pauses the run.
    pub fn receipt_shape<T: Serialize + ?Sized>(mut self, schema: &T) -> Self {
        let invalid = |why: String| Error::new(Code::TermsInvalid, why);
        let given = Json::given(schema).map_err(Error::from);
        self.shape = Some(given.and_then(|shape| shape::checked(shape).map_err(invalid)));
        self
    }
}
