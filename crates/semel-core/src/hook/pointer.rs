//! JSON pointers (RFC 6901) into a body that stays as it came. One pass over the value for each
//! step, and as many steps as the trigger's author wrote: nobody's input makes it slower than that.

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::limits;

/// A pointer, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    steps: Vec<String>,
}

/// Why a text is no pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointerInvalid(pub String);

/// Why a pointer finds nothing that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Astray {
    NotThere,
    /// A member is there twice: which of them was meant is anybody's guess.
    Twice,
    NotJson,
}

impl Pointer {
    /// Reads `/data/object/id`; the empty text is the whole value.
    pub(super) fn parse(text: &str) -> Result<Pointer, PointerInvalid> {
        if text.is_empty() {
            return Ok(Pointer { steps: Vec::new() });
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(PointerInvalid(format!("the pointer `{text}` does not begin with /")));
        };
        let steps = rest.split('/').map(unescape).collect::<Option<Vec<_>>>();
        let steps = steps.ok_or_else(|| {
            PointerInvalid(format!("the pointer `{text}` has a ~ that is neither ~0 nor ~1"))
        })?;
        if steps.len() > limits::JSON_DEPTH_MAX {
            return Err(PointerInvalid(format!("the pointer `{text}` has too many steps")));
        }
        Ok(Pointer { steps })
    }

    /// The value that it points at.
    pub(super) fn find<'a>(&self, body: &'a [u8]) -> Result<&'a RawValue, Astray> {
        let mut value: &RawValue = serde_json::from_slice(body).map_err(|_| Astray::NotJson)?;
        for step in &self.steps {
            let mut reader = serde_json::Deserializer::from_str(value.get());
            let found = Step(step).deserialize(&mut reader).map_err(|_| Astray::NotJson)?;
            value = found?;
        }
        Ok(value)
    }
}

fn unescape(step: &str) -> Option<String> {
    let mut rest = step.split('~');
    let mut plain = rest.next().unwrap_or_default().to_owned();
    for piece in rest {
        let (escaped, piece) = match piece.as_bytes().first()? {
            b'0' => ('~', &piece[1..]),
            b'1' => ('/', &piece[1..]),
            _ => return None,
        };
        plain.push(escaped);
        plain.push_str(piece);
    }
    Some(plain)
}

/// One step into an object or an array; everything beside it is passed over.
struct Step<'s>(&'s str);

impl<'s, 'de> DeserializeSeed<'de> for Step<'s> {
    type Value = Result<&'de RawValue, Astray>;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'s, 'de> Visitor<'de> for Step<'s> {
    type Value = Result<&'de RawValue, Astray>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Err(Astray::NotThere);
        while let Some(name) = map.next_key::<String>()? {
            if name != self.0 {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&'de RawValue>()?;
            found = match found {
                Err(Astray::NotThere) => Ok(value),
                Ok(_) | Err(_) => Err(Astray::Twice),
            };
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let is_number = self.0 == "0" || (!self.0.starts_with('0') && !self.0.starts_with('+'));
        let index = is_number.then(|| self.0.parse::<usize>().ok()).flatten();
        let mut found = Err(Astray::NotThere);
        let mut place = 0;
        while Some(place) != index {
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            place += 1;
        }
        if let Some(value) = list.next_element::<&'de RawValue>()? {
            found = Ok(value);
            while list.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Err(Astray::NotThere))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Err(Astray::NotThere))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Err(Astray::NotThere))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Err(Astray::NotThere))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Err(Astray::NotThere))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Err(Astray::NotThere))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, pointer: &str, want: Result<&str, Astray>) {
        let pointer = Pointer::parse(pointer).expect("a pointer");
        assert_eq!(pointer.find(body.as_bytes()).map(RawValue::get), want, "{pointer:?}");
    }

    #[test]
    fn a_pointer_finds_one_value_as_it_was_written() {
        let body = r#"{"a/b":{"~":[10, 1.50,{"":"x"}]},"n":9007199254740993}"#;
        check(body, "/a~1b/~0/1", Ok("1.50"));
        check(body, "/a~1b/~0/2/", Ok("\"x\""));
        check(body, "/n", Ok("9007199254740993"));
        check(body, "", Ok(body));
        check(body, "/n/x", Err(Astray::NotThere));
        check(body, "/a~1b/~0/3", Err(Astray::NotThere));
        check(body, "/a~1b/~0/01", Err(Astray::NotThere));
        check(body, "/a~1b/~0/-", Err(Astray::NotThere));
    }

    #[test]
    fn a_member_that_is_there_twice_is_refused_and_so_is_what_is_no_json() {
        check(r#"{"id":1,"id":2}"#, "/id", Err(Astray::Twice));
        check(r#"{"id":1,"\u0069d":2}"#, "/id", Err(Astray::Twice));
        check(r#"{"x":1,"x":2,"id":3}"#, "/id", Ok("3"));
        check("id=1", "/id", Err(Astray::NotJson));
        check("", "", Err(Astray::NotJson));
        check(r#"{"id":1} {"id":2}"#, "/id", Err(Astray::NotJson));
        for text in ["id", "a/b"] {
            assert!(Pointer::parse(text).is_err(), "{text}");
        }
        for text in ["/~", "/~2", "/a~"] {
            assert!(Pointer::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sec_49_depth_and_width_cost_one_pass_for_each_step() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        check(&deep, "/1", Err(Astray::NotThere));
        assert!(Pointer::parse(&"/0".repeat(65)).is_err(), "steps are bounded");
        let wide = format!("{{{}\"id\":7}}", "\"x\":[[1,2],{\"y\":null}],".repeat(40_000));
        check(&wide, "/id", Ok("7"));
    }
}
