//! Connections that are not ours.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use super::super::handshake::{Introduction, MAGIC};
use super::*;

fn knock(port: u16) -> TcpStream {
    let mut stream = None;
    eventually("rank 0 listens", WATCHDOG, || {
        stream = TcpStream::connect(("127.0.0.1", port)).ok();
        stream.is_some()
    });
    stream.expect("it is connected")
}

/// Forms a group of 3 whose workers come only after the strangers, and returns how long the
/// workers needed.
fn form_beside(strangers: impl FnOnce(u16) -> Vec<TcpStream> + Send + 'static) -> Duration {
    let port = free_port();
    let zero = std::thread::spawn(move || met(&local(0, 3, port).build().unwrap()));
    let kept = strangers(port);
    let began = Instant::now();
    let sessions = ranks(1..3, move |rank| met(&local(rank, 3, port).build().unwrap()));
    let needed = began.elapsed();
    let zero = zero.join().unwrap().unwrap();
    for session in sessions {
        session.unwrap().into_control().close();
    }
    zero.into_control().close();
    drop(kept);
    needed
}

#[test]
fn strangers_of_every_kind_neither_join_nor_delay() {
    let needed = form_beside(|port| {
        let mut kept = Vec::new();
        let mut say = |bytes: &[u8]| {
            let mut stream = knock(port);
            let _ = stream.write_all(bytes);
            kept.push(stream);
        };
        // Silence, a web browser, an ssh client, noise, half of the magic, a huge length, an
        // introduction cut short, one that lies about its inside.
        say(b"");
        say(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
        say(b"SSH-2.0-OpenSSH_9.2\r\n");
        say(&(0..10_000u32).map(|at| (at * 31 % 251) as u8).collect::<Vec<_>>());
        say(&MAGIC[..5]);
        say(&[&MAGIC[..], &[1, 0, 255, 255]].concat());
        let mut own = Introduction::new(&local(1, 3, port).build().unwrap());
        let whole = own.encode();
        say(&whole[..whole.len() - 3]);
        let mut lie = whole.clone();
        lie[54] = 255;
        say(&lie);
        // Right but for the proof; and of another job.
        say(&[&whole[..], &[7; 32]].concat());
        own.job = "other".to_owned();
        say(&[&own.encode()[..], &[7; 32]].concat());
        // Gone before anybody looked.
        drop(knock(port));
        kept
    });
    assert!(needed < Duration::from_secs(2), "{needed:?}");
}

#[test]
fn a_slow_stranger_and_a_crowd_do_not_block() {
    let needed = form_beside(|port| {
        let mut slow = knock(port);
        std::thread::spawn(move || {
            for byte in MAGIC.iter().cycle().take(200) {
                if slow.write_all(&[*byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        (0..150).map(|_| knock(port)).collect()
    });
    assert!(needed < Duration::from_secs(3), "{needed:?}");
}

#[test]
fn a_silent_stranger_is_told_nothing_and_dropped_in_time() {
    let port = free_port();
    let config = local(0, 2, port).start_timeout(Duration::from_secs(9));
    let zero = std::thread::spawn(move || start(&config.build().unwrap()).err());
    let mut silent = knock(port);
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let began = Instant::now();
    let mut heard = Vec::new();
    silent.read_to_end(&mut heard).expect("the connection ends in peace");
    assert_eq!(heard, b"");
    let after = began.elapsed();
    assert!(after > Duration::from_secs(4) && after < Duration::from_secs(8), "{after:?}");
    let error = zero.join().unwrap().expect("nobody came").to_string();
    assert!(error.contains("no word from rank 1"), "{error}");
}

#[test]
fn a_worker_survives_strangers_in_rank_0s_place() {
    let port = free_port();
    let squatter = Mutex::new(Some(TcpListener::bind(("127.0.0.1", port)).unwrap()));
    let sessions = ranks(0..2, move |rank| {
        if rank == 0 {
            // A web server answers first, then one that hangs up; then rank 0 gets its port.
            let squatter = squatter.lock().unwrap().take().expect("there is one rank 0");
            let (mut one, _) = squatter.accept().unwrap();
            one.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            let (two, _) = squatter.accept().unwrap();
            drop(two);
        }
        met(&local(rank, 2, port).build().unwrap()).map(|session| session.rank())
    });
    assert_eq!(sessions.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), [0, 1]);
}
