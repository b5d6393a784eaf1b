//! Bandwidth of the reduction kernels, in bytes of one buffer per second, beside a copy of the same
//! size and plain loops over typed slices. Filter with `cargo bench --bench reduce -- f32/sum`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::{bf16, f16};
use lycaon::bench_support::{SimdLevel, reduce, reduce_onto};
use lycaon::dtype::{DType, Op};

const SIZES: [(&str, usize); 3] = [("4KiB", 4 << 10), ("256KiB", 256 << 10), ("64MiB", 64 << 20)];

const CASES: [(DType, Op); 11] = [
    (DType::F32, Op::Sum),
    (DType::F64, Op::Sum),
    (DType::F16, Op::Sum),
    (DType::Bf16, Op::Sum),
    (DType::I32, Op::Sum),
    (DType::I8, Op::Sum),
    (DType::F32, Op::Avg),
    (DType::F32, Op::Max),
    (DType::Bf16, Op::Max),
    (DType::Complex64, Op::Prod),
    (DType::Bool, Op::LogicalAnd),
];

/// Ordinary numbers in every type: nothing subnormal, which would be slow, comes of them.
fn buffers(bytes: usize, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|k| (0..bytes).map(|i| 0x3e + ((i * 7 + k) % 2) as u8).collect()).collect()
}

fn kernels(c: &mut Criterion) {
    for (dtype, op) in CASES {
        let mut group = c.benchmark_group(format!("{dtype}/{op}"));
        for (label, bytes) in SIZES {
            group.throughput(Throughput::Bytes(bytes as u64));
            for count in [2, 4, 8] {
                group.bench_function(BenchmarkId::new(label, count), |b| {
                    let buffers = buffers(bytes, count);
                    let sources: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
                    let mut into = vec![0; bytes];
                    b.iter(|| reduce(dtype, op, count as u32, &mut into, black_box(&sources)));
                });
            }
        }
        group.finish();
    }
}

fn levels(c: &mut Criterion) {
    let bytes = 256 << 10;
    let buffers = buffers(bytes, 4);
    let sources: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
    let mut into = vec![0; bytes];
    for level in SimdLevel::available() {
        let mut group = c.benchmark_group(format!("level/{}", level.name()));
        group.throughput(Throughput::Bytes(bytes as u64));
        for (dtype, op) in CASES {
            group.bench_function(format!("{dtype}-{op}"), |b| {
                b.iter(|| level.reduce(dtype, op, 4, &mut into, black_box(&sources)));
            });
        }
        group.finish();
    }
}

fn tiny(c: &mut Criterion) {
    let mut group = c.benchmark_group("tiny");
    for (dtype, bytes) in [(DType::F32, 8), (DType::F32, 56), (DType::Bf16, 8), (DType::I8, 255)] {
        let buffers = buffers(bytes, 2);
        let sources: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let mut into = vec![0; bytes];
        group.bench_function(format!("{dtype}-{bytes}B"), |b| {
            b.iter(|| reduce(black_box(dtype), Op::Sum, 1, &mut into, black_box(&sources)));
        });
        group.bench_function(format!("{dtype}-{bytes}B-onto"), |b| {
            b.iter(|| {
                reduce_onto(black_box(dtype), Op::Sum, 1, &mut into, black_box(&sources[..1]));
            });
        });
    }
    group.finish();
}

fn naive<T: Copy>(c: &mut Criterion, name: &str, from: fn(u8) -> T, add: impl Fn(T, T) -> T) {
    let mut group = c.benchmark_group(format!("naive/{name}"));
    for (label, bytes) in [("8B", 8)].into_iter().chain(SIZES) {
        group.throughput(Throughput::Bytes(bytes as u64));
        for count in [2, 4, 8] {
            let len = bytes / size_of::<T>();
            group.bench_function(BenchmarkId::new(label, count), |b| {
                let value = |i: usize, k: usize| from(((i * 7 + k) % 61) as u8);
                let sources: Vec<Vec<T>> =
                    (0..count).map(|k| (0..len).map(|i| value(i, k)).collect()).collect();
                let mut into = sources[0].clone();
                b.iter(|| {
                    let sources = black_box(&sources);
                    into.copy_from_slice(&sources[0]);
                    for source in &sources[1..] {
                        for (into, value) in into.iter_mut().zip(source) {
                            *into = add(*into, *value);
                        }
                    }
                    black_box(&mut into);
                });
            });
        }
    }
    group.finish();
}

fn comparisons(c: &mut Criterion) {
    let mut group = c.benchmark_group("memcpy");
    for (label, bytes) in SIZES {
        group.throughput(Throughput::Bytes(bytes as u64));
        let source = vec![1_u8; bytes];
        let mut into = vec![0_u8; bytes];
        group.bench_function(label, |b| {
            b.iter(|| {
                into.copy_from_slice(black_box(&source));
                black_box(&mut into);
            });
        });
    }
    group.finish();
    naive(c, "f32", f32::from, |a, b| a + b);
    naive(c, "f64", f64::from, |a, b| a + b);
    naive(c, "f16", f16::from, |a, b| f16::from_f32(a.to_f32() + b.to_f32()));
    naive(c, "bf16", bf16::from, |a, b| bf16::from_f32(a.to_f32() + b.to_f32()));
    naive(c, "i32", i32::from, i32::wrapping_add);
    naive(c, "i8", |byte| byte as i8, i8::wrapping_add);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20);
    targets = tiny, kernels, levels, comparisons
}
criterion_main!(benches);
