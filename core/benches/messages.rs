//! Messages between two threads: the message layer over memory and TCP loopback beside bare
//! non-blocking sockets that are polled in the same way, and with a thread that sleeps beside bare
//! blocking sockets. Runs alternate; what is printed are
//! medians, the median of the ratios to the bare sockets, and the ratio of the shortest times (the
//! one that other programs on the machine disturb least).
//!
//! `ROUNDS` sets the number of alternating runs, `ONLY` (`raw`, `tcp`, `memory`, `blocking`,
//! `sleeping`) and
//! `SIZE` (bytes) pick one case, for example under `strace -c -f`.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use lycaon::bench_support::messages::Endpoint;

/// What the two sides of a ping-pong do.
trait Pair: Send {
    fn send(&mut self, bytes: &[u8]);
    fn recv(&mut self, into: &mut [u8]);
    fn exchange(&mut self, bytes: &[u8], into: &mut [u8]);
}

impl Pair for Endpoint {
    fn send(&mut self, bytes: &[u8]) {
        Endpoint::send(self, bytes);
    }

    fn recv(&mut self, into: &mut [u8]) {
        Endpoint::recv(self, into);
    }

    fn exchange(&mut self, bytes: &[u8], into: &mut [u8]) {
        Endpoint::exchange(self, bytes, into);
    }
}

/// A bare socket, polled.
struct Raw(TcpStream);

impl Raw {
    fn pair() -> [Raw; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (far, _) = listener.accept().expect("accepted");
        [near, far].map(|stream| {
            stream.set_nodelay(true).expect("an option");
            stream.set_nonblocking(true).expect("an option");
            Raw(stream)
        })
    }

    fn step(result: std::io::Result<usize>) -> usize {
        match result {
            Ok(0) => panic!("the other side is gone"),
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Pair for Raw {
    fn send(&mut self, bytes: &[u8]) {
        self.exchange(bytes, &mut []);
    }

    fn recv(&mut self, into: &mut [u8]) {
        self.exchange(&[], into);
    }

    fn exchange(&mut self, mut bytes: &[u8], into: &mut [u8]) {
        let mut at = 0;
        while !bytes.is_empty() || at < into.len() {
            if !bytes.is_empty() {
                bytes = &bytes[Self::step(self.0.write(bytes))..];
            }
            if at < into.len() {
                at += Self::step(self.0.read(&mut into[at..]));
            }
            std::thread::yield_now();
        }
    }
}

/// A bare socket that sleeps in the kernel.
struct Blocking(TcpStream);

impl Pair for Blocking {
    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("sent");
    }

    fn recv(&mut self, into: &mut [u8]) {
        self.0.read_exact(into).expect("received");
    }

    fn exchange(&mut self, bytes: &[u8], into: &mut [u8]) {
        std::thread::scope(|scope| {
            if bytes.len() > 1 << 20 {
                // why: more than the buffers hold can only be written while it is read.
                let mut writer = self.0.try_clone().expect("a descriptor");
                scope.spawn(move || writer.write_all(bytes).expect("sent"));
            } else {
                self.0.write_all(bytes).expect("sent");
            }
            self.0.read_exact(into).expect("received");
        });
    }
}

fn filled(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + seed) as u8).collect()
}

/// Microseconds for one way of a ping-pong.
fn ping_pong<P: Pair>(ends: &mut [P; 2], len: usize, rounds: usize) -> f64 {
    let [near, far] = ends;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut bytes = vec![0; len];
            for _ in 0..rounds {
                far.recv(&mut bytes);
                far.send(&bytes);
            }
        });
        let (bytes, mut back) = (filled(len, rounds), vec![0; len]);
        near.send(&bytes);
        near.recv(&mut back);
        let start = Instant::now();
        for _ in 1..rounds {
            near.send(&bytes);
            near.recv(&mut back);
        }
        let elapsed = start.elapsed();
        assert!(back == bytes, "wrong data");
        elapsed.as_secs_f64() * 1e6 / (2 * (rounds - 1)) as f64
    })
}

/// Microseconds for a message both ways at once.
fn both_ways<P: Pair>(ends: &mut [P; 2], len: usize, rounds: usize) -> f64 {
    let [near, far] = ends;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (bytes, mut back) = (filled(len, 1), vec![0; len]);
            for _ in 0..rounds {
                far.exchange(&bytes, &mut back);
            }
            assert!(back == filled(len, 0), "wrong data");
        });
        let (bytes, mut back) = (filled(len, 0), vec![0; len]);
        near.exchange(&bytes, &mut back);
        let start = Instant::now();
        for _ in 1..rounds {
            near.exchange(&bytes, &mut back);
        }
        start.elapsed().as_secs_f64() * 1e6 / (rounds - 1) as f64
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let variable = |name| std::env::var(name).ok();
    let runs = variable("ROUNDS").and_then(|text| text.parse().ok()).unwrap_or(31);
    let only = variable("ONLY");
    let only_size: Option<usize> = variable("SIZE").and_then(|text| text.parse().ok());
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut raw = Raw::pair();
    let mut tcp = Endpoint::tcp_pair(1);
    let mut memory = Endpoint::memory_pair();
    let mut blocking = Raw::pair().map(|Raw(stream)| {
        stream.set_nonblocking(false).expect("an option");
        Blocking(stream)
    });
    let mut sleeping = Endpoint::tcp_pair(1);
    for end in &mut sleeping {
        end.spins = Some(0);
    }
    println!("     bytes                      us         MB/s   of raw  best us  of raw");
    let cases = [(8, 1500), (1024, 1500), (65_536, 500), (64 << 20, 2)];
    for (len, rounds) in cases {
        if only_size.is_some_and(|size| size != len) {
            continue;
        }
        for way in ["one way", "both ways"] {
            let mut times: [Vec<f64>; 5] = Default::default();
            for _ in 0..runs {
                let run = |name, times: &mut Vec<f64>, measure: &mut dyn FnMut() -> f64| {
                    if wanted(name) {
                        times.push(measure());
                    }
                };
                macro_rules! measure {
                    ($name:literal, $ends:expr, $at:literal) => {
                        run($name, &mut times[$at], &mut || match way {
                            "one way" => ping_pong($ends, len, rounds),
                            _ => both_ways($ends, len, rounds),
                        });
                    };
                }
                measure!("raw", &mut raw, 0);
                measure!("tcp", &mut tcp, 1);
                measure!("memory", &mut memory, 2);
                measure!("blocking", &mut blocking, 3);
                measure!("sleeping", &mut sleeping, 4);
            }
            for (at, name) in ["raw", "tcp", "memory", "blocking", "sleeping"].iter().enumerate() {
                let values = &times[at];
                let beside = &times[if at < 3 { 0 } else { 3 }];
                if values.is_empty() {
                    continue;
                }
                let time = median(values.clone());
                let ratios: Vec<f64> =
                    values.iter().zip(beside).map(|(ours, raw)| ours / raw).collect();
                let ratio = if ratios.is_empty() { f64::NAN } else { median(ratios) };
                let rate = len as f64 / time;
                let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
                let best = least(values);
                let best_ratio = best / least(beside);
                println!(
                    "{len:>10} {name:>10} {time:>12.2} {rate:>12.1} {ratio:>8.2} {best:>8.2} \
                     {best_ratio:>7.2}  {way}"
                );
            }
        }
    }
}
