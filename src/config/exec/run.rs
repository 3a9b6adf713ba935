//! One run of a plugin: a process, its output read within limits, ended by a stop.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, select};

use crate::error::{Error, Result};
use crate::stop::Stop;

/// A plugin that prints more gives no credential.
const LONGEST_ANSWER: usize = 1 << 20;
/// How much of the end of what a plugin said to its standard error is told.
const TOLD: usize = 1 << 10;
/// How long the end of that is waited for once the plugin has ended: what it has started itself may hold it open.
const GRACE: Duration = Duration::from_secs(1);

/// A plugin that has run, or was ended.
pub(super) struct Run {
    stdout: Option<Pipe>,
    stderr: Option<Pipe>,
    /// How it ended, if not with success.
    failed: Option<Error>,
}

/// Runs a plugin to its end. The error is of starting it.
///
/// A stop ends the plugin, at once and for good; what that has started itself may live on.
pub(super) fn run(command: &mut Command, stop: &Stop) -> io::Result<Run> {
    let mut process = Process(command.spawn()?);
    let no_thread = |e| io::Error::other(format!("no thread left: {e}"));
    let stdout = process.0.stdout.take();
    let stdout = stdout.map(|pipe| Pipe::read(pipe, None)).transpose().map_err(no_thread)?;
    let stderr = process.0.stderr.take();
    let stderr = stderr.map(|pipe| Pipe::read(pipe, Some(TOLD))).transpose().map_err(no_thread)?;
    let failed = process.end(stdout.as_ref(), stop).err();
    Ok(Run { stdout, stderr, failed })
}

impl Run {
    /// What it printed, if it ended well.
    pub(super) fn stdout(&self) -> Result<Vec<u8>> {
        match &self.failed {
            Some(e) => Err(Error::config(e.to_string())),
            None => Ok(self.stdout.as_ref().map(|pipe| pipe.lock().clone()).unwrap_or_default()),
        }
    }

    /// The end of what it said to its standard error, unless that was the terminal's.
    pub(super) fn stderr(&self) -> String {
        let stopped = self.failed.as_ref().is_some_and(Error::is_stopped);
        let Some(pipe) = self.stderr.as_ref().filter(|_| !stopped) else { return String::new() };
        let _ = pipe.ended.recv_timeout(GRACE);
        let bytes = pipe.lock();
        let told = &bytes[bytes.len().saturating_sub(TOLD)..];
        String::from_utf8_lossy(told).trim_start_matches(char::REPLACEMENT_CHARACTER).trim().to_owned()
    }
}

/// Ended when dropped.
struct Process(Child);

impl Process {
    fn end(&mut self, stdout: Option<&Pipe>, stop: &Stop) -> Result<()> {
        if let Some(stdout) = stdout {
            select! {
                recv(stdout.ended) -> _ => {}
                recv(stop.signal()) -> _ => return Err(Error::stopped()),
            }
            if stdout.lock().len() > LONGEST_ANSWER {
                return Err(Error::config(format!("it printed more than {LONGEST_ANSWER} bytes")));
            }
        }
        let status = self.wait(stop)?;
        if status.success() {
            return Ok(());
        }
        Err(Error::config(match status.code() {
            Some(code) => format!("failed with exit code {code}"),
            None => format!("was ended ({status})"),
        }))
    }

    /// Most plugins have ended when their output has. For the others std has no wait that can be ended.
    fn wait(&mut self, stop: &Stop) -> Result<ExitStatus> {
        let mut pause = Duration::from_millis(1);
        loop {
            let ended = self.0.try_wait();
            if let Some(status) = ended.map_err(|e| Error::config("cannot be waited for").with_source(e))? {
                return Ok(status);
            }
            if stop.sleep(pause) {
                return Err(Error::stopped());
            }
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors mean that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a thread has read of a pipe.
struct Pipe {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected at its end.
    ended: Receiver<()>,
}

impl Pipe {
    /// Keeps all, and stops beyond what an answer may be; or `last` bytes and a few more. The thread, `lw-plugin`, ends
    /// with the pipe.
    fn read(mut pipe: impl Read + Send + 'static, last: Option<usize>) -> io::Result<Self> {
        let (sender, ended) = bounded::<()>(0);
        let this = Self { bytes: Arc::default(), ended };
        let bytes = this.bytes.clone();
        let work = move || {
            let mut piece = [0; 4 << 10];
            loop {
                match pipe.read(&mut piece) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => break,
                    Ok(amount) => {
                        let mut bytes = lock(&bytes);
                        bytes.extend_from_slice(&piece[..amount]);
                        match (bytes.len(), last) {
                            (length, Some(last)) if length > 8 * last => drop(bytes.drain(..length - last)),
                            (length, None) if length > LONGEST_ANSWER => break,
                            _ => {}
                        }
                    }
                }
            }
            drop(sender);
        };
        thread::Builder::new().name("lw-plugin".into()).spawn(work)?;
        Ok(this)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.bytes)
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Stdio;

    use super::super::super::testing::Dir;
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn a_stop_ends_it_whatever_it_does() {
        for script in [
            "exec sleep 3600",
            // It has nothing more to say, and stays.
            "exec >&- 2>&-; exec sleep 3600",
            // What it has started holds its output open.
            "(while [ -e $FILE ]; do sleep 0.1; done) & wait",
        ] {
            let (dir, stop) = (Dir::new(), Stop::new());
            let file = dir.path("started");
            thread::scope(|scope| {
                let run = scope.spawn(|| {
                    run(sh(&format!(": > $FILE; {script}")).env("FILE", &file), &stop).unwrap().stdout()
                });
                while !file.exists() && !run.is_finished() {
                    stop.sleep(Duration::from_millis(1));
                }
                stop.stop();
                assert!(run.join().unwrap().unwrap_err().is_config());
            });
        }
    }

    #[test]
    fn output_of_any_length_is_read_and_too_much_is_refused() {
        let stop = Stop::new();
        let run_of = |script: &str| run(&mut sh(script), &stop).unwrap();
        let long = run_of("head -c 200000 /dev/zero | tr '\\0' x").stdout().unwrap();
        assert!(long.len() == 200_000 && long.iter().all(|byte| *byte == b'x'));
        let error = run_of("exec yes hidden").stdout().unwrap_err().to_string();
        assert_eq!(error, "it printed more than 1048576 bytes");
    }

    #[test]
    fn of_what_it_complains_about_the_end_is_told() {
        let script = "head -c 200000 /dev/zero | tr '\\0' x >&2; echo ' the end' >&2; exit 3";
        let run = run(&mut sh(script), &Stop::new()).unwrap();
        assert_eq!(run.stdout().unwrap_err().to_string(), "failed with exit code 3");
        let told = run.stderr();
        assert!(told.ends_with("xxx the end") && told.len() <= TOLD, "{told}");
    }
}
