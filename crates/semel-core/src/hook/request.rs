//! What came over the wire, before anybody believes it.

use super::verify::Refused;

/// A delivery as it came: header lines and raw bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Names in lower case, each line by itself and in its order.
    pub headers: &'a [(String, Vec<u8>)],
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// All lines of a header, as they came.
    pub(super) fn lines(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.headers.iter().filter(move |(known, _)| known == name);
        lines.map(|(_, value)| value.as_slice())
    }

    /// The one header of this name. Two of them are refused: whoever stands in between may have
    /// looked at the other one.
    pub(super) fn one(&self, name: &str) -> Result<Option<&'a str>, Refused> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let Some((_, value)) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(Refused::Repeated);
        }
        let text = str::from_utf8(value).map_err(|_| Refused::Malformed)?;
        if text.contains(|c: char| c.is_control()) {
            return Err(Refused::Malformed);
        }
        Ok(Some(text.trim_matches([' ', '\t'])))
    }

    /// The one header of this name, which must be there.
    pub(super) fn needed(&self, name: &str) -> Result<&'a str, Refused> {
        self.one(name)?.filter(|text| !text.is_empty()).ok_or(Refused::Missing)
    }

    /// The media type of the body in lower case, without its parameters.
    pub(super) fn media_type(&self) -> Option<String> {
        let text = self.one("content-type").ok()??;
        let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        (!media.is_empty()).then_some(media)
    }
}
