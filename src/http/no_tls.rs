//! What stands for TLS in a build without the feature `tls`.

use std::io;

use super::agents::Found;
use super::connector::Wire;
use crate::config::{ClientCertificate, Config};
use crate::error::{Error, Result};

#[derive(Clone, Debug)]
pub(super) struct Tls;

impl Tls {
    pub(super) fn none() -> Self {
        Self
    }

    pub(super) fn new(_: &Config) -> Result<Self> {
        Err(Error::config("https:// needs the feature `tls` of listwatch"))
    }

    pub(super) fn without_name(&self) -> Self {
        self.clone()
    }

    pub(super) fn present(&mut self, _: &Config, _: Option<&ClientCertificate>) -> Result<()> {
        Ok(())
    }

    pub(super) fn is_from_files(&self, _: &Config, _: Option<&ClientCertificate>) -> bool {
        false
    }

    pub(super) fn expired_certificate(&self, _: &Config) -> Option<String> {
        None
    }

    pub(super) fn renew(&mut self, _: &Config, _: Option<&ClientCertificate>) -> Option<Found> {
        None
    }

    pub(super) fn handshake(&self, _: &str, _: &mut Wire) -> Result<Session> {
        Err(Error::config("https:// needs the feature `tls` of listwatch"))
    }
}

pub(super) fn is_refusal(_: &Error) -> bool {
    false
}

pub(super) fn is_refusal_of_ours(_: &Error) -> bool {
    false
}

/// There is none.
pub(super) enum Session {}

impl Session {
    pub(super) fn read(&mut self, _: &mut Wire, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn write_all(&mut self, _: &mut Wire, _: &[u8]) -> io::Result<()> {
        match *self {}
    }
}
