//! What the network does to connections, through a proxy; the server behind it is whatever `stage` is.
//!
//! The informers have a short silence, so that a busy machine may be taken for a dead connection, which costs a wait:
//! the backoff allowed is that of a failure or two more.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut, RangeBounds};

use listwatch::ListMode;

use super::proxy::{Entry, OPEN, Proxy, Way};
use super::scene::{Scene, longest, silence};
use super::stage::{Stage, stage};

scenarios! {
    // Connections that end.
    connections_are_cut: ..=11.2, |net| net.during(|net| net.proxy.cut());
    connections_are_reset: ..=11.2, |net| net.during(|net| net.proxy.reset());
    connections_are_refused_for_a_while: ..=50.0, refused;
    nobody_listens_at_first: ..=50.0, late;
    // Connections that are slow.
    each_byte_comes_by_itself: ..=11.2, |net| {
        net.proxy.meet(Entry::Relay(Way::Single, Way::Single));
        net.sync();
        net.change();
    };
    an_answer_is_slow: ..=24.8, slow;
    a_partition_heals_in_time: ..=11.2, healed;
    requests_are_lost_but_events_are_not: ..=11.2, |net| net.dead(|net| net.proxy.set(Way::Dark, Way::Open));
    a_partition_for_many_tries: ..=50.0, many_tries;
    // Connections that are dead: found by their silence, and no list is needed.
    dead_connect_without_answer: ..=50.0, |net| net.dead(|net| net.at_the_door(|net| net.proxy.clog()));
    dead_accepted_and_silent: ..=50.0, |net| net.dead(|net| net.meets(Entry::Mute));
    dead_within_the_first_bytes: ..=50.0, |net| net.dead(|net| net.meets(Entry::Relay(Way::Open, Way::Half)));
    dead_before_the_head: ..=50.0, |net| net.dead(|net| net.meets(Entry::Relay(Way::Open, Way::DarkOnceAsked)));
    dead_behind_the_head: ..=50.0, |net| net.dead(|net| net.meets(Entry::Relay(Way::Open, Way::HeadOnly)));
    dead_for_requests: ..=50.0, |net| net.dead(|net| net.meets(Entry::Relay(Way::Dark, Way::Open)));
    dead_watch: ..=24.8, |net| net.dead(|net| net.proxy.set(Way::Open, Way::Dark));
    dead_in_both_directions: ..=24.8, |net| net.dead(|net| net.proxy.set(Way::Dark, Way::Dark));
    dead_within_a_record: ..=24.8, |net| net.dead(|net| net.proxy.set(Way::Open, Way::Half));
    dead_upstream: ..=24.8, |net| net.dead(|net| net.proxy.cut_upstream());
    // The same of the first list.
    dead_first_connect: ..=50.0, |net| net.first(|net| net.at_the_door(|net| net.proxy.clog()));
    dead_first_accepted: ..=50.0, |net| net.first(|net| net.meets(Entry::Mute));
    dead_first_head: ..=50.0, |net| net.first(|net| net.meets(Entry::Relay(Way::Open, Way::DarkOnceAsked)));
    dead_first_body: ..=50.0, |net| net.first(|net| net.meets(Entry::Relay(Way::Open, Way::HeadOnly)));
    dead_first_record: ..=50.0, |net| net.first(|net| net.meets(Entry::Relay(Way::Open, Way::Half)));
}

/// A scene whose informer is behind a proxy.
pub(crate) struct Net {
    // In this order: the informer ends first.
    scene: Scene,
    pub(crate) proxy: Proxy,
    _stage: Stage,
}

impl Deref for Net {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Scene {
        &mut self.scene
    }
}

#[track_caller]
fn play(mode: ListMode, within: impl RangeBounds<f64> + Debug, act: impl FnOnce(&mut Net)) {
    if let Some(stage) = stage() {
        play_on(stage, mode, within, act);
    }
}

#[track_caller]
pub(crate) fn play_on(
    stage: Stage,
    mode: ListMode,
    within: impl RangeBounds<f64> + Debug,
    act: impl FnOnce(&mut Net),
) {
    let proxy = Proxy::start(stage.upstream);
    let scene = Scene::new(mode, stage.ours.clone(), (stage.theirs)(proxy.port()), silence());
    let mut net = Net { scene, proxy, _stage: stage };
    act(&mut net);
    let real = net.recovers(&within);
    assert!(real < longest(), "{mode:?}: {real:?} of the system's time");
}

impl Net {
    /// Changes come when this has happened to the connections.
    fn during(&mut self, fault: impl FnOnce(&mut Self)) {
        self.sync();
        fault(self);
        self.change();
    }

    /// The same for a fault that leaves the version good: no list is needed.
    fn dead(&mut self, fault: impl FnOnce(&mut Self)) {
        self.sync();
        let lists = self.lists();
        self.change_behind(fault);
        self.converges("a dead connection");
        assert_eq!(self.lists(), lists, "{:?}: the version is still good", self.mode);
    }

    fn change_behind(&mut self, fault: impl FnOnce(&mut Self)) {
        fault(self);
        self.change();
    }

    /// The first connection meets it.
    fn first(&mut self, fault: impl FnOnce(&mut Self)) {
        fault(self);
        if !self.informer.has_synced() {
            self.until("it syncs", || self.informer.has_synced());
        }
    }

    /// The next connection meets this, and those behind it nothing.
    fn meets(&mut self, entry: Entry) {
        self.proxy.meet(entry);
        let accepted = self.proxy.accepted();
        self.knock();
        self.until("a connection meets it", || self.proxy.accepted() > accepted);
        self.proxy.meet(OPEN);
    }

    /// A connection fails at the door, which is then open again.
    fn at_the_door(&mut self, fault: impl FnOnce(&mut Self)) {
        fault(self);
        self.knock();
        self.until("a connection is not made", || {
            let last = self.informer.health().last_error;
            last.is_some_and(|(_, error)| error.contains("connect to"))
        });
        self.proxy.listen();
    }

    /// Makes the informer connect: by its start, or by the end of the connections that it has.
    fn knock(&mut self) {
        if self.informer.has_synced() {
            self.proxy.cut();
        } else {
            self.start();
        }
    }
}

fn refused(net: &mut Net) {
    net.sync();
    let lists = net.lists();
    net.at_the_door(|net| net.proxy.refuse());
    net.change();
    net.converges("an outage");
    assert_eq!(net.lists(), lists, "{:?}: the version is still good", net.mode);
}

fn late(net: &mut Net) {
    net.at_the_door(|net| net.proxy.refuse());
}

/// The answer to the first list comes after half the silence.
fn slow(net: &mut Net) {
    net.proxy.meet(Entry::Relay(Way::Open, Way::Held));
    let accepted = net.proxy.accepted();
    net.start();
    net.until("it has asked", || net.proxy.accepted() > accepted);
    assert!(!net.informer.has_synced());
    net.proxy.meet(OPEN);
    net.proxy.set(Way::Open, Way::Open);
}

/// Both sides send, and it comes through in the end: TCP sends again.
fn healed(net: &mut Net) {
    net.sync();
    net.proxy.set(Way::Held, Way::Held);
    net.change();
    assert_eq!(net.history.deleted(), [""; 0], "nothing comes through");
    net.proxy.set(Way::Open, Way::Open);
}

/// Each connection is dead that is tried for a while.
fn many_tries(net: &mut Net) {
    net.sync();
    let (lists, errors) = (net.lists(), net.informer.health().errors);
    net.proxy.meet(Entry::Mute);
    net.proxy.cut();
    net.change();
    net.until("it has tried", || net.informer.health().errors > errors + 2);
    assert_eq!(net.history.deleted(), [""; 0], "nothing comes through");
    net.proxy.meet(OPEN);
    net.begin();
    net.converges("a partition");
    assert_eq!(net.lists(), lists, "{:?}: the version is still good", net.mode);
}
