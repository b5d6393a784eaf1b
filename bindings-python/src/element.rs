//! Which element type a Python object means: formats of the buffer protocol, names, and types.

use lycaon::DType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};

use crate::errors;

/// The element type of a buffer format.
///
/// The sizes of `l`, `L`, `n`, … depend on platform and prefix, so only the kind comes from the
/// letter and the size from the item size.
pub(crate) fn from_format(py: Python<'_>, format: &[u8], item_size: usize) -> PyResult<DType> {
    let (order, letters) = match format {
        [order @ (b'@' | b'=' | b'<' | b'>' | b'!'), rest @ ..] => (*order, rest),
        _ => (b'@', format),
    };
    let dtype = match (letters, item_size) {
        (b"?", 1) => DType::Bool,
        (b"b", 1) => DType::I8,
        (b"B", 1) => DType::U8,
        (b"h" | b"i" | b"l" | b"q" | b"n", 2) => DType::I16,
        (b"h" | b"i" | b"l" | b"q" | b"n", 4) => DType::I32,
        (b"h" | b"i" | b"l" | b"q" | b"n", 8) => DType::I64,
        (b"H" | b"I" | b"L" | b"Q" | b"N", 2) => DType::U16,
        (b"H" | b"I" | b"L" | b"Q" | b"N", 4) => DType::U32,
        (b"H" | b"I" | b"L" | b"Q" | b"N", 8) => DType::U64,
        (b"e", 2) => DType::F16,
        // What frameworks say that have no letter for it.
        (b"bfloat16" | b"E", 2) => DType::Bf16,
        (b"f", 4) => DType::F32,
        // A C `long double` is a plain double on some platforms.
        (b"d" | b"g", 8) => DType::F64,
        (b"Zf" | b"F", 8) => DType::Complex64,
        (b"Zd" | b"Zg" | b"D", 16) => DType::Complex128,
        _ => {
            let format = String::from_utf8_lossy(format);
            return Err(errors::argument(
                py,
                "unknown_dtype",
                format!(
                    "buffer format {format:?} with {item_size} bytes per item is no element type; \
                     known are {}",
                    known()
                ),
            ));
        }
    };
    let foreign = if cfg!(target_endian = "little") { b">!".as_slice() } else { b"<" };
    if dtype.size() > 1 && foreign.contains(&order) {
        return Err(byte_order(py, dtype));
    }
    Ok(dtype)
}

fn byte_order(py: Python<'_>, dtype: DType) -> PyErr {
    errors::argument(
        py,
        "byte_order",
        format!(
            "{dtype} elements are not in this machine's byte order; convert them first: \
             x.astype(x.dtype.newbyteorder('='))"
        ),
    )
}

/// The element type of what users write: a name of ours or of NumPy's, a Python type, or whatever
/// has a name of that kind (a dtype or scalar type of NumPy or of a framework).
pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = object.py();
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_cow()?;
        return from_name(&text).ok_or_else(|| unknown(py, &text));
    }
    if let Ok(class) = object.cast::<PyType>() {
        for (python, dtype) in [
            (py.get_type::<PyBool>(), DType::Bool),
            (py.get_type::<PyInt>(), DType::I64),
            (py.get_type::<PyFloat>(), DType::F64),
            (py.get_type::<PyComplex>(), DType::Complex128),
        ] {
            if class.is(&python) {
                return Ok(dtype);
            }
        }
    }
    let name = object.getattr("name").or_else(|_| object.getattr("__name__"));
    let text = match name.and_then(|name| name.extract::<String>()) {
        Ok(name) => name,
        // Such as `torch.float32`.
        Err(_) => object.str()?.to_cow()?.into_owned(),
    };
    let dtype =
        from_name(text.rsplit('.').next().unwrap_or(&text)).ok_or_else(|| unknown(py, &text))?;
    // NumPy says the order of a dtype where it is not that of the machine.
    match object.getattr("byteorder").and_then(|order| order.extract::<char>()) {
        Ok('>') if cfg!(target_endian = "little") => Err(byte_order(py, dtype)),
        Ok('<') if cfg!(target_endian = "big") => Err(byte_order(py, dtype)),
        _ => Ok(dtype),
    }
}

fn unknown(py: Python<'_>, name: &str) -> PyErr {
    let message = format!("unknown element type {name:?}; known are {}", known());
    errors::argument(py, "unknown_dtype", message)
}

fn known() -> String {
    DType::ALL.map(numpy_name).join(", ")
}

/// Our own short names and those of NumPy.
fn from_name(name: &str) -> Option<DType> {
    // NumPy 1 calls it `bool_`.
    let name = name.strip_suffix('_').unwrap_or(name);
    DType::ALL.into_iter().find(|dtype| numpy_name(*dtype) == name || dtype.name() == name)
}

/// NumPy's name; bfloat16 is that of `ml_dtypes`.
pub(crate) fn numpy_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::Complex64 => "complex64",
        DType::Complex128 => "complex128",
        other => other.name(),
    }
}

/// The letter of the module `struct` that `memoryview.cast` understands, where there is one.
pub(crate) fn struct_letter(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "?",
        DType::I8 => "b",
        DType::I16 => "h",
        DType::I32 => "i",
        DType::I64 => "q",
        DType::U8 => "B",
        DType::U16 => "H",
        DType::U32 => "I",
        DType::U64 => "Q",
        DType::F32 => "f",
        DType::F64 => "d",
        _ => return None,
    })
}
