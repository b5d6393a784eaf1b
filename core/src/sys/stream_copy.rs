//! Copying into memory that will not be read again soon.

/// Copies like `copy_from_slice`, but past the caches where the processor can: the destination's
/// lines are not read first and do not push out what is worth keeping.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn copy_streaming(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "a copy has two equal lengths");
    #[cfg(target_arch = "x86_64")]
    if from.len() >= x86::WORTHWHILE && x86::available() {
        // SAFETY: the processor has AVX as just checked.
        return unsafe { x86::copy(into, from) };
    }
    into.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{_mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};

    /// Below this the fence costs more than the stores save.
    pub(super) const WORTHWHILE: usize = 4096;

    pub(super) fn available() -> bool {
        std::arch::is_x86_feature_detected!("avx")
    }

    /// # Safety
    /// The processor has AVX, and the lengths are equal.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn copy(into: &mut [u8], from: &[u8]) {
        let head = into.as_ptr().align_offset(64).min(into.len());
        let body = (into.len() - head) / 128 * 128;
        into[..head].copy_from_slice(&from[..head]);
        let destination = into[head..head + body].as_mut_ptr();
        let source = from[head..head + body].as_ptr();
        let mut at = 0;
        while at < body {
            // SAFETY: `at + 128 <= body`, which is inside of both slices; the destination is
            // aligned to 64 bytes because of `head`.
            unsafe {
                let a = _mm256_loadu_si256(source.add(at).cast());
                let b = _mm256_loadu_si256(source.add(at + 32).cast());
                let c = _mm256_loadu_si256(source.add(at + 64).cast());
                let d = _mm256_loadu_si256(source.add(at + 96).cast());
                _mm256_stream_si256(destination.add(at).cast(), a);
                _mm256_stream_si256(destination.add(at + 32).cast(), b);
                _mm256_stream_si256(destination.add(at + 64).cast(), c);
                _mm256_stream_si256(destination.add(at + 96).cast(), d);
            }
            at += 128;
        }
        // Streaming stores are weakly ordered; what is published after this comes after them.
        _mm_sfence();
        into[head + body..].copy_from_slice(&from[head + body..]);
    }
}

#[cfg(test)]
mod tests {
    use super::copy_streaming;

    #[test]
    fn every_alignment_and_length_copies_exactly() {
        let source: Vec<u8> = (0..20_000u32).map(|i| (i * 31 % 251) as u8).collect();
        for (offset, shift) in [(0, 0), (1, 0), (7, 3), (63, 64), (64, 1)] {
            for len in [0, 1, 63, 4095, 4096, 4097, 4223, 8192, 19_000] {
                let mut target = vec![0xee; 20_100];
                copy_streaming(&mut target[offset..offset + len], &source[shift..shift + len]);
                assert_eq!(&target[offset..offset + len], &source[shift..shift + len]);
                assert!(target[..offset].iter().all(|byte| *byte == 0xee));
                assert!(target[offset + len..].iter().all(|byte| *byte == 0xee));
            }
        }
    }
}
