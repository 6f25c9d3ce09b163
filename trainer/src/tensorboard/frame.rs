//! TFRecord framing: the length with its checksum, then the bytes with theirs.

/// Castagnoli's polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Appends a record.
pub(super) fn put(out: &mut Vec<u8>, record: &[u8]) {
    let length = (record.len() as u64).to_le_bytes();
    out.extend(length);
    out.extend(masked(crc32c(&length)).to_le_bytes());
    out.extend(record);
    out.extend(masked(crc32c(record)).to_le_bytes());
}

pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let shifted = |crc: u32, _| (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shifted))
}

/// The format masks its checksums, since the checksum of bytes that contain their own checksum is not meaningful.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}
