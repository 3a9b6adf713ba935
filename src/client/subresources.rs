//! Eviction of pods, and scale.

use serde::Serialize;

use super::{Api, DeleteParams, Patch, PatchParams, PostParams};
use crate::error::Result;
use crate::object::Resource;
use crate::types::Scale;

impl<K: Resource> Api<K> {
    /// Asks for the end of a pod, as `kubectl drain` does: it is deleted unless a PodDisruptionBudget forbids that for
    /// now. `params` say how it is deleted. `policy/v1`: Kubernetes 1.22 or newer.
    ///
    /// A budget's refusal comes at once, though the server may say when to come back: the caller decides whether to
    /// wait, and for how long.
    ///
    /// # Errors
    /// If a budget forbids it now ([`is_too_many_requests`](crate::Error::is_too_many_requests); the causes of its
    /// status name the budget), several budgets apply (500), there is no such pod, this is no `Api` of pods, the server
    /// refuses, or the connection fails: then it may have been evicted.
    pub fn evict(&self, name: &str, params: &DeleteParams) -> Result<()> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Eviction<'a> {
            api_version: &'static str,
            kind: &'static str,
            metadata: Named<'a>,
            delete_options: &'a DeleteParams,
        }
        #[derive(Serialize)]
        struct Named<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            namespace: Option<&'a str>,
        }

        let eviction = Eviction {
            api_version: "policy/v1",
            kind: "Eviction",
            metadata: Named { name, namespace: self.namespace() },
            delete_options: params,
        };
        let post =
            || self.collection().create_subresource(name, "eviction", &PostParams::default(), &eviction);
        let answer = self.check_pods("evictions").and_then(|()| post());
        answer
            .and_then(|request| self.client().call(&request))
            .map(drop)
            .map_err(|e| self.explain_named("evict", name, e))
    }

    /// Reads how many replicas an object has and should have. Deployments, ReplicaSets, StatefulSets,
    /// ReplicationControllers and custom resources that say so have a scale.
    ///
    /// # Errors
    /// As [`get`](Self::get); a kind without a scale is [not found](crate::Error::is_not_found), too.
    pub fn get_scale(&self, name: &str) -> Result<Scale> {
        self.get_subresource(name, "scale")
    }

    /// Writes how many replicas an object should have. With the resourceVersion that the scale was read with, the
    /// server refuses if the object has changed since.
    ///
    /// # Errors
    /// As [`replace`](Self::replace) and [`get_scale`](Self::get_scale).
    pub fn replace_scale(&self, name: &str, params: &PostParams, scale: &Scale) -> Result<Scale> {
        self.replace_subresource(name, "scale", params, scale)
    }

    /// Changes how many replicas an object should have: `json!({"spec": {"replicas": 3}})`.
    ///
    /// # Errors
    /// As [`patch`](Self::patch) and [`get_scale`](Self::get_scale).
    pub fn patch_scale<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<Scale> {
        self.patch_subresource(name, "scale", params, patch)
    }
}
