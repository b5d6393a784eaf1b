import Testing

@testable import Lycaon

/// Element types, operators and names.
struct ElementTests {
    @Test("an element is as large as its type says")
    func sizes() {
        func check<T: LycaonElement>(_ type: T.Type, _ expected: DataType) {
            #expect(T.dataType == expected)
            #expect(MemoryLayout<T>.size == expected.size && MemoryLayout<T>.stride == expected.size)
        }
        check(Bool.self, .bool)
        check(Int8.self, .int8)
        check(Int16.self, .int16)
        check(Int32.self, .int32)
        check(Int64.self, .int64)
        check(Int.self, .int64)
        check(UInt8.self, .uint8)
        check(UInt16.self, .uint16)
        check(UInt32.self, .uint32)
        check(UInt64.self, .uint64)
        check(UInt.self, .uint64)
        #if !((os(macOS) || targetEnvironment(macCatalyst)) && arch(x86_64))
        check(Float16.self, .float16)
        #endif
        check(BFloat16.self, .bfloat16)
        check(Float.self, .float32)
        check(Double.self, .float64)
        check(Complex<Float>.self, .complex64)
        check(Complex<Double>.self, .complex128)
        #expect(DataType.allCases.count == 15)
    }

    @Test("bfloat16 rounds to nearest, ties to even")
    func rounding() {
        #expect(BFloat16(1).bitPattern == 0x3f80)
        #expect(BFloat16(Float(bitPattern: 0x3f80_8000)).bitPattern == 0x3f80)
        #expect(BFloat16(Float(bitPattern: 0x3f80_8001)).bitPattern == 0x3f81)
        #expect(BFloat16(Float(bitPattern: 0x3f81_8000)).bitPattern == 0x3f82)
        #expect(BFloat16(Float.greatestFiniteMagnitude).bitPattern == 0x7f80)
        #expect(BFloat16(-Float.infinity).bitPattern == 0xff80)
        #expect(BFloat16(Float(bitPattern: 0x7f80_0001)).isNaN)
        #expect(BFloat16(Float.nan) != BFloat16(Float.nan))
    }

    @Test("every bfloat16 is the same after a trip through Float")
    func trip() {
        for bits in UInt16.min...UInt16.max {
            let value = BFloat16(bitPattern: bits)
            let back = BFloat16(Float(value))
            #expect(back.bitPattern == bits || value.isNaN && back.isNaN)
        }
    }

    @Test("bfloat16 is a number like others")
    func numbers() {
        let values: [BFloat16] = [2, 0.5, -1.5]
        #expect(values.sorted() == [-1.5, 0.5, 2])
        #expect(BFloat16(-0.0) == BFloat16(0.0))
        #expect(Set([BFloat16(-0.0), BFloat16(0.0)]).count == 1)
        #expect("\(BFloat16(1.5))" == "1.5" && Double(BFloat16(0.25)) == 0.25)
    }

    @Test("complex numbers compute")
    func complex() {
        let left = Complex<Double>(1, 2)
        let right = Complex<Double>(3, -1)
        #expect(left + right == Complex(4, 1))
        #expect(left - right == Complex(-2, 3))
        #expect(left * right == Complex(5, 5))
        #expect("\(left)" == "(1.0, 2.0)" && Complex<Float>.zero == Complex(0))
    }

    @Test("names are those of the other languages")
    func names() {
        #expect(DataType.allCases.map(\.description).joined(separator: " ")
            == "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 complex64 complex128")
        #expect(ReduceOperator.allCases.map(\.description).joined(separator: " ")
            == "sum prod min max avg band bor bxor land lor")
        #expect(Operation.allCases.map(\.description).joined(separator: " ")
            == "all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all scan barrier send recv send_recv split")
        #expect(LinkKind.sharedMemory.description == "shm")
    }

    @Test("durations are whole nanoseconds or an error")
    func durations() {
        #expect(Duration.seconds(1.5).nanoseconds == 1_500_000_000)
        #expect(Duration.nanoseconds(1).nanoseconds == 1)
        #expect(Duration.zero.nanoseconds == 0)
        #expect(Duration.milliseconds(-1).nanoseconds == nil)
        #expect(Duration.seconds(Int64.max).nanoseconds == nil)
    }
}
