use std::time::Duration;

use super::*;

fn two() -> ConfigBuilder {
    Config::builder()
        .rank(1)
        .size(2)
        .rendezvous(Rendezvous::Tcp { host: "127.0.0.1".to_owned(), port: 7 })
}

#[test]
fn builder_and_environment_end_in_the_same_value() {
    let by_hand = two()
        .token("t")
        .job("j")
        .timeout(Duration::from_secs(5))
        .links([LinkKind::Tcp])
        .rails(2)
        .algorithm(Operation::AllReduce, Algorithm::Ring)
        .staging(1 << 20)
        .build()
        .unwrap();
    let vars = [
        ("LYCAON_RANK", "1"),
        ("LYCAON_SIZE", "2"),
        ("LYCAON_RENDEZVOUS", "127.0.0.1:7"),
        ("LYCAON_TOKEN", "t"),
        ("LYCAON_JOB", "j"),
        ("LYCAON_TIMEOUT", "5"),
        ("LYCAON_LINKS", "tcp"),
        ("LYCAON_RAILS", "2"),
        ("LYCAON_ALGORITHM", "all_reduce=ring"),
        ("LYCAON_STAGING", "1M"),
    ];
    let lookup =
        |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
    let read = Config::from_vars(lookup).unwrap();
    assert_eq!(format!("{by_hand:?}"), format!("{read:?}"));
    assert_eq!(by_hand.token(), read.token());
    assert_eq!(by_hand.fingerprint(), read.fingerprint());
    let changed = ConfigBuilder::from_vars(lookup).unwrap().rails(3).build().unwrap();
    assert_eq!(changed.rails(), 3, "the builder replaces what the environment said");
}

#[test]
fn wrong_values_are_named() {
    let error = |builder: ConfigBuilder| builder.build().unwrap_err().to_string();
    assert!(error(two().rank(2)).contains("rank=2 and size=2 contradict"));
    assert!(error(two().size(0)).contains("size"));
    assert!(error(two().size(70_000)).contains("from 1 to 65536"));
    assert!(error(Config::builder().rank(0).size(2)).contains("rendezvous is not set"));
    assert!(error(Config::builder().rank(0)).contains("size is not set although rank=0"));
    assert!(error(Config::builder().size(2)).contains("rank is not set although size=2"));
    assert!(error(two().token("")).contains("token"));
    assert!(!error(two().token("x".repeat(5000))).contains("xxx"));
    assert!(error(two().job("")).contains("job"));
    assert!(error(two().job("a\nb")).contains("job"));
    assert!(error(two().timeout(Duration::ZERO)).contains("timeout"));
    assert!(error(two().start_timeout(Duration::MAX)).contains("start timeout"));
    assert!(error(two().liveness(Duration::ZERO)).contains("liveness"));
    assert!(error(two().links([])).contains("links"));
    assert!(error(two().links([LinkKind::Memory])).contains("links"));
    assert!(error(two().rails(0)).contains("rails"));
    assert!(error(two().staging(1)).contains("staging"));
    assert!(error(two().recorder(0)).contains("recorder"));
    assert!(error(two().spin(Duration::from_secs(60))).contains("spin"));
    assert!(error(two().interfaces([Interface::Name("a b".to_owned())])).contains("interface"));
    let tcp = |host: &str, port| Rendezvous::Tcp { host: host.to_owned(), port };
    assert!(error(two().rendezvous(tcp("127.0.0.1", 0))).contains("rendezvous"));
    assert!(error(two().rendezvous(tcp("a b", 1))).contains("rendezvous"));
    assert!(error(two().rendezvous(tcp("10.0.0.1", 1))).contains("token"));
}

#[test]
fn links_keep_their_order_without_repetition() {
    let config = two().links([LinkKind::Tcp, LinkKind::Shm, LinkKind::Tcp]).build().unwrap();
    assert_eq!(config.links(), [LinkKind::Tcp, LinkKind::Shm]);
}

#[test]
fn the_fingerprint_covers_what_must_be_equal() {
    let of = |builder: ConfigBuilder| builder.build().unwrap().fingerprint();
    let own = of(two());
    for same in [two().rank(0), two().timeout(Duration::from_secs(1)), two().links([LinkKind::Tcp])]
    {
        assert_eq!(of(same), own);
    }
    for other in [
        two().size(3),
        two().rails(2),
        two().staging(1 << 20),
        two().rank_order(true),
        two().algorithm(None, Algorithm::Ring),
    ] {
        assert_ne!(of(other), own);
    }
    // Said in another way, but the same.
    let all = Operation::ALL
        .into_iter()
        .fold(two(), |builder, operation| builder.algorithm(operation, Algorithm::Ring));
    assert_eq!(of(all), of(two().algorithm(None, Algorithm::Ring)));
}
