//! Credentials that are asked for, under many orders of those who wait for them.

use super::super::Credentials;
use super::*;
use crate::sync::model::explore;

/// Gives `1`, `2`, …; fails if it is asked by two at a time, or was told to stop.
#[derive(Clone, Default)]
struct Counted(Arc<[AtomicUsize; 2]>);

impl CredentialSource for Counted {
    fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn StdError + Send + Sync>> {
        let [running, calls] = &*self.0;
        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
        thread::yield_now();
        let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
        running.fetch_sub(1, Ordering::SeqCst);
        if stop.is_stopped() { Err("stopped".into()) } else { Ok(Credential::token(&call.to_string())?) }
    }
}

impl Counted {
    fn calls(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }
}

fn get(credentials: &Credentials, stop: &Stop) -> Result<Identity> {
    let clock = Clock::manual();
    credentials.identity(&clock, clock.deadline(std::time::Duration::from_secs(60)), stop)
}

#[test]
fn who_stays_gets_a_credential_whoever_gives_up() {
    explore(3000, || {
        let source = Counted::default();
        let credentials = Credentials::source(source.clone());
        let stop = Stop::new();
        let giving_up = [(); 2].map(|()| {
            let (credentials, stop) = (credentials.clone(), stop.clone());
            thread::spawn(move || drop(get(&credentials, &stop)))
        });
        let staying = {
            let credentials = credentials.clone();
            thread::spawn(move || get(&credentials, &Stop::new()).unwrap())
        };
        stop.stop();
        staying.join().unwrap();
        for thread in giving_up {
            thread.join().unwrap();
        }
        // At most the runs that were given up by all, and one more.
        assert!((1..=3).contains(&source.calls()));
    });
}

#[test]
fn a_credential_that_was_refused_is_asked_for_once_however_many_were_refused() {
    explore(3000, || {
        let source = Counted::default();
        let credentials = Credentials::source(source.clone());
        let refused = [(); 3].map(|()| {
            let credentials = credentials.clone();
            thread::spawn(move || {
                let first = get(&credentials, &Stop::new()).unwrap();
                if first.generation == 1 {
                    credentials.refresh(&first);
                    assert_eq!(get(&credentials, &Stop::new()).unwrap().generation, 2);
                }
            })
        });
        for thread in refused {
            thread.join().unwrap();
        }
        assert_eq!(source.calls(), 2);
    });
}
