//! Lists, decoded item by item as they come from the socket.

use std::fmt;

use super::request::METADATA_LIST;
use super::{Api, ListParams};
use crate::error::{Error, Result};
use crate::http::{RawRequest, Response};
use crate::object::{List, ListMeta, Resource};
use crate::stop::Stop;
use crate::wire::ListDecoder;

/// Bytes that are read before items are decoded.
const ROUND: usize = 128 << 10;

impl<K: Resource> Api<K> {
    /// Lists objects, giving each to `sink` as it comes, so that no copy of the answer is kept: at most some hundred
    /// KiB beside the largest object. An object that does not fit `K` comes as an error that
    /// [says which it is](crate::Error::unfit); the others follow. `sink` may end the list with an error.
    ///
    /// Blocks until all has come, as long as bytes keep coming; silence of the client's
    /// [timeout](crate::Config::timeout) is an error. A server that asks to come back later is asked again within that
    /// time. A stop ends it within a moment.
    ///
    /// # Errors
    /// If the server refuses, the connection breaks, or `sink` says so. What came before may have reached `sink`.
    pub fn list_each(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: impl FnMut(Result<K>) -> Result<()>,
    ) -> Result<ListMeta> {
        let client = self.client();
        self.list_from(params, sink, |list| {
            client.patiently(stop, |left| client.stream(list, Some(left), params.silence, stop))
        })
    }

    /// The same, refusals being errors at once: for who has a patience of his own.
    pub(crate) fn list_once(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: impl FnMut(Result<K>) -> Result<()>,
    ) -> Result<ListMeta> {
        self.list_from(params, sink, |list| self.client().stream(list, None, params.silence, stop))
    }

    /// The version of the latest state. Asked for on a connection of its own, as who asks does not trust those there
    /// are.
    pub(crate) fn latest_version(&self, params: &ListParams, stop: &Stop) -> Result<String> {
        let client = self.client();
        let silence = params.silence.unwrap_or(client.timeout());
        let open = |list: &RawRequest| client.stream_alone(list, silence, stop);
        let list = self.list_from(&params.clone().limit(1), |_| Ok(()), open)?;
        Ok(list.resource_version)
    }

    fn list_from(
        &self,
        params: &ListParams,
        mut sink: impl FnMut(Result<K>) -> Result<()>,
        open: impl FnOnce(&RawRequest) -> Result<Response>,
    ) -> Result<ListMeta> {
        let list = || {
            let mut request = self.collection().list(params)?;
            if K::METADATA_ONLY {
                request.accept = METADATA_LIST;
            }
            let mut answer = open(&request)?;
            let mut decoder = ListDecoder::<K>::new(self.expect());
            let mut gathered = 0;
            loop {
                let amount = answer.body.read(decoder.space())?;
                decoder.filled(amount);
                gathered += amount;
                // Each round parses the item that is cut off twice, so rounds are not small.
                if amount == 0 || gathered >= ROUND {
                    drain(&mut decoder, &mut sink)?;
                    gathered = 0;
                }
                if amount == 0 {
                    break;
                }
            }
            decoder.finish()
        };
        list().map_err(|e| self.explain("list", e))
    }

    /// Lists objects: all of them, or one page of [`ListParams::limit`].
    ///
    /// Blocks as [`list_each`](Self::list_each).
    ///
    /// # Errors
    /// If the server refuses, the connection breaks, or an object does not fit `K`.
    pub fn list(&self, params: &ListParams) -> Result<List<K>> {
        let mut items = Vec::new();
        let metadata = self.list_each(params, self.client().stop(), |item| {
            items.push(item?);
            Ok(())
        })?;
        Ok(List { metadata, items })
    }

    /// Lists objects page by page, of [`ListParams::limit`] each (500 by default), all of one state of the cluster.
    ///
    /// If the server no longer has that state, an error that [is expired](crate::Error::is_expired) ends it: list
    /// again.
    #[must_use]
    pub fn pages(&self, params: &ListParams) -> Pages<K> {
        let mut params = params.clone();
        if params.limit == 0 {
            params.limit = 500;
        }
        Pages { api: self.clone(), next: Some(params) }
    }
}

fn drain<K: Resource>(
    decoder: &mut ListDecoder<K>,
    sink: &mut impl FnMut(Result<K>) -> Result<()>,
) -> Result<()> {
    while let Some(item) = decoder.next_item() {
        match item {
            Err(e) if e.unfit().is_none() => return Err(e),
            item => sink(item)?,
        }
    }
    Ok(())
}

/// The pages of a list, from [`Api::pages`]. Each step blocks for one request.
pub struct Pages<K> {
    api: Api<K>,
    next: Option<ListParams>,
}

impl<K: Resource> Iterator for Pages<K> {
    type Item = Result<List<K>>;

    fn next(&mut self) -> Option<Self::Item> {
        let params = self.next.take()?;
        let page = self.api.list(&params);
        if let Ok(list) = &page {
            let token = &list.metadata.continue_token;
            if !token.is_empty() && *token == params.continue_token {
                return Some(Err(self
                    .api
                    .explain("list", Error::decode("the server gives the same page again"))));
            }
            self.next = (!token.is_empty()).then(|| params.continue_token(token.clone()));
        }
        Some(page)
    }
}

impl<K> fmt::Debug for Pages<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("next", &self.next).finish_non_exhaustive()
    }
}
