//! base64 as Go's `encoding/base64` reads and writes it, for secrets and for what a kubeconfig holds inline.

use std::borrow::Cow;

use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};

/// RFC 4648 with padding. As Go, it does not mind what the unused bits of the last digit are.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Line ends within are left out, as Go does.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, DecodeError> {
    let text: Cow<'_, str> = match text.contains(['\r', '\n']) {
        true => text.replace(['\r', '\n'], "").into(),
        false => text.into(),
    };
    BASE64.decode(&*text)
}
