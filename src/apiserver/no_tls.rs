//! What stands for TLS in a build without the feature `tls`.

use std::io;
use std::net::TcpStream;

use crate::config::Pem;
use crate::error::Result;

/// There are none.
#[derive(Clone)]
pub(super) enum Files {}

/// There is none.
pub(super) enum Tls {}

impl Tls {
    pub(super) fn new(files: &Files, _: Option<&Pem>) -> Result<Self> {
        match *files {}
    }

    pub(super) fn authority(&self) -> Vec<u8> {
        match *self {}
    }

    pub(super) fn session(&self) -> io::Result<Session> {
        match *self {}
    }
}

/// There is none.
pub(super) enum Session {}

impl Session {
    pub(super) fn handshake(&mut self, _: &TcpStream) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn knows_client(&self) -> bool {
        match *self {}
    }

    pub(super) fn read(&mut self, _: &TcpStream, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn write_all(&mut self, _: &TcpStream, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn close(&mut self, _: &TcpStream) -> io::Result<()> {
        match *self {}
    }
}
