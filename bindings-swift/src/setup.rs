//! Configuring and starting a group.

use std::sync::Arc;
use std::time::Duration;

use lycaon::config::{ConfigBuilder, Interface, Rendezvous};
use lycaon::error::{ConfigError, LinkKind};
use lycaon::{Algorithm, Config, Group, Operation};

use crate::calls::into_handle;
use crate::failure::{Failure, LINKS};
use crate::guard::guard;
use crate::side_channel::Closure;

/// A configuration under construction.
///
/// What Swift sets is kept as it is; what is wrong with it comes out of `check` and `start`, so
/// that setting has no errors of its own.
pub(crate) struct Setup {
    builder: ConfigBuilder,
    links: Vec<LinkKind>,
    interfaces: Vec<Interface>,
    wrong: Option<ConfigError>,
}

/// A group that has been started and is not yet Swift's.
pub(crate) struct Started {
    group: Option<Group>,
}

pub(crate) fn setup_by_hand() -> Setup {
    Setup::new(Config::builder())
}

pub(crate) fn setup_from_environment() -> Result<Setup, Failure> {
    guard(|| Ok(Setup::new(ConfigBuilder::from_env()?)))
}

impl Setup {
    fn new(builder: ConfigBuilder) -> Self {
        Setup { builder, links: Vec::new(), interfaces: Vec::new(), wrong: None }
    }

    /// Replaces the builder, whose methods take it by value.
    fn set(&mut self, change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) {
        self.builder = change(self.builder.clone());
    }

    /// Keeps the value, or the first error.
    fn parsed<T>(&mut self, value: Result<T, ConfigError>) -> Option<T> {
        value.map_err(|error| self.wrong.get_or_insert(error)).ok()
    }

    pub(crate) fn rank(&mut self, rank: u64) {
        self.set(|builder| builder.rank(narrow(rank)));
    }

    pub(crate) fn size(&mut self, size: u64) {
        self.set(|builder| builder.size(narrow(size)));
    }

    pub(crate) fn rendezvous(&mut self, place: &str) {
        if let Some(place) = self.parsed(place.parse()) {
            self.set(|builder| builder.rendezvous(place));
        }
    }

    pub(crate) fn side_channel(&mut self, function: usize, release: usize, context: usize) {
        let closure = Arc::new(Closure::new(function, release, context));
        self.set(|builder| builder.rendezvous(Rendezvous::SideChannel(closure)));
    }

    pub(crate) fn token(&mut self, token: &str) {
        self.set(|builder| builder.token(token));
    }

    pub(crate) fn job(&mut self, job: &str) {
        self.set(|builder| builder.job(job));
    }

    pub(crate) fn start_timeout(&mut self, nanoseconds: u64) {
        self.set(|builder| builder.start_timeout(Duration::from_nanos(nanoseconds)));
    }

    pub(crate) fn timeout(&mut self, nanoseconds: u64) {
        self.set(|builder| builder.timeout(Duration::from_nanos(nanoseconds)));
    }

    pub(crate) fn liveness(&mut self, nanoseconds: u64) {
        self.set(|builder| builder.liveness(Duration::from_nanos(nanoseconds)));
    }

    pub(crate) fn spin(&mut self, nanoseconds: u64) {
        self.set(|builder| builder.spin(Duration::from_nanos(nanoseconds)));
    }

    /// Adds a kind of link, by its number.
    pub(crate) fn link(&mut self, kind: u8) {
        let known = LINKS.iter().find(|(number, _)| *number == kind).map(|(_, known)| *known);
        let kind = known.ok_or_else(|| ConfigError::Value {
            name: "links".to_owned(),
            value: kind.to_string(),
            expected: "shm or tcp",
        });
        if let Some(kind) = self.parsed(kind) {
            self.links.push(kind);
            let links = self.links.clone();
            self.set(|builder| builder.links(links));
        }
    }

    pub(crate) fn rails(&mut self, rails: u64) {
        self.set(|builder| builder.rails(narrow(rails)));
    }

    pub(crate) fn host_id(&mut self, id: &str) {
        self.set(|builder| builder.host_id(id));
    }

    /// Adds an interface, by address or name.
    pub(crate) fn interface(&mut self, name: &str) {
        self.interfaces.push(
            name.parse().map_or_else(|_| Interface::Name(name.to_owned()), Interface::Address),
        );
        let interfaces = self.interfaces.clone();
        self.set(|builder| builder.interfaces(interfaces));
    }

    pub(crate) fn algorithm(&mut self, operation: Option<u8>, algorithm: &str) {
        let operation = operation.and_then(Operation::from_number);
        if let Some(algorithm) = self.parsed(algorithm.parse::<Algorithm>()) {
            self.set(|builder| builder.algorithm(operation, algorithm));
        }
    }

    pub(crate) fn rank_order(&mut self, only: bool) {
        self.set(|builder| builder.rank_order(only));
    }

    pub(crate) fn staging(&mut self, bytes: u64) {
        self.set(|builder| builder.staging(narrow(bytes)));
    }

    pub(crate) fn recorder(&mut self, operations: u64) {
        self.set(|builder| builder.recorder(narrow(operations)));
    }

    fn build(&self) -> Result<Config, Failure> {
        match &self.wrong {
            Some(error) => Err(error.clone().into()),
            None => Ok(self.builder.clone().build()?),
        }
    }

    pub(crate) fn check(&self) -> Option<Failure> {
        guard(|| self.build()).err()
    }

    pub(crate) fn start(self) -> Result<Started, Failure> {
        guard(|| {
            let group = lycaon::init_with(&self.build()?)?;
            Ok(Started { group: Some(group) })
        })
    }
}

impl Started {
    /// The address of the handle; 0 if it was taken before.
    pub(crate) fn take_handle(&mut self) -> usize {
        self.group.take().map_or(0, |group| into_handle(group).expose_provenance())
    }
}

/// A number too large for this machine stays too large, so that the builder says what is wrong.
fn narrow(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::ffi::Problem;

    fn problem(change: impl FnOnce(&mut Setup)) -> Option<Problem> {
        let mut setup = setup_by_hand();
        change(&mut setup);
        setup.check().map(|failure| failure.problem())
    }

    #[test]
    fn a_plain_setup_is_a_group_of_one() {
        assert!(problem(|_| {}).is_none());
        let mut started = setup_by_hand().start().ok().expect("a group of one");
        let handle = started.take_handle();
        assert_ne!(handle, 0);
        assert_eq!(started.take_handle(), 0, "a handle is given once");
        let handle = std::ptr::with_exposed_provenance_mut(handle);
        // SAFETY: the handle was made above and is freed once.
        unsafe { crate::calls::lycaon_swift_free(handle) };
    }

    #[test]
    fn what_is_wrong_is_said_at_the_end() {
        let wrong = problem(|setup| setup.rendezvous("nonsense:port"));
        assert!(matches!(wrong, Some(Problem::Value { .. })));
        let wrong = problem(|setup| setup.algorithm(None, "magic"));
        assert!(matches!(wrong, Some(Problem::Value { name, .. }) if name == "algorithm"));
        let wrong = problem(|setup| setup.link(9));
        assert!(matches!(wrong, Some(Problem::Value { name, .. }) if name == "links"));
        let wrong = problem(|setup| {
            setup.rank(3);
            setup.size(3);
        });
        assert!(matches!(wrong, Some(Problem::Conflict { .. })));
        let wrong = problem(|setup| setup.rails(0));
        assert!(matches!(wrong, Some(Problem::Value { name, .. }) if name == "rails"));
    }

    #[test]
    fn a_setup_can_be_used_after_a_wrong_start() {
        let mut setup = setup_by_hand();
        setup.staging(u64::MAX);
        let failure = setup.start().err().expect("too much staging");
        assert!(failure.message().contains("staging"), "{}", failure.message());
    }
}
