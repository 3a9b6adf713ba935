//! The headers that all requests of a client have alike.

use ureq::http::header::{HeaderName, HeaderValue};

use crate::config::{Config, Impersonate, escape};
use crate::error::{Error, Result};

/// Who asks, as whom to act, and that answers shall not be compressed, if the configuration says so.
pub(super) fn common(config: &Config) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let mut headers = Vec::new();
    let mut add = |name: &str, value: &str| -> Result<()> {
        let bad = |e: ureq::http::Error| {
            Error::config(format!("{value:?} cannot be sent as header {name}")).with_source(e)
        };
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|e| bad(e.into()))?;
        headers.push((header, HeaderValue::from_bytes(value.as_bytes()).map_err(|e| bad(e.into()))?));
        Ok(())
    };
    add("user-agent", config.user_agent())?;
    if !config.compression() {
        add("accept-encoding", "identity")?;
    }
    if let Some(Impersonate { user, uid, groups, extra }) = config.impersonate() {
        add("impersonate-user", user)?;
        uid.iter().try_for_each(|uid| add("impersonate-uid", uid))?;
        groups.iter().try_for_each(|group| add("impersonate-group", group))?;
        for (key, values) in extra {
            let name = format!("impersonate-extra-{}", escape(key, fits_name));
            values.iter().try_for_each(|value| add(&name, value))?;
        }
    }
    Ok(headers)
}

/// What a header's name can hold unescaped, as client-go's `headerKeyEscape` has it.
fn fits_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte)
}
