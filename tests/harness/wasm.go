package harness

// WasmModule is the smallest WebAssembly module that a proxy loads as a plugin: it does nothing.
func WasmModule() []byte {
	section := func(id byte, body ...byte) []byte { return append([]byte{id, byte(len(body))}, body...) }
	export := func(name string, kind, index byte) []byte {
		return append(append([]byte{byte(len(name))}, name...), kind, index)
	}
	const i32, function, memory, end = 0x7f, 0, 2, 0x0b
	one := []byte{4, 0, 0x41, 1, end} // a body that returns 1
	nothing := []byte{2, 0, end}
	exports := []byte{6}
	for _, e := range [][]byte{
		export("memory", memory, 0), export("proxy_abi_version_0_2_1", function, 0), export("malloc", function, 1),
		export("proxy_on_vm_start", function, 2), export("proxy_on_configure", function, 2), export("proxy_on_context_create", function, 3),
	} {
		exports = append(exports, e...)
	}
	code := []byte{4}
	for _, body := range [][]byte{nothing, one, one, nothing} {
		code = append(code, body...)
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range [][]byte{
		section(1, 4, 0x60, 0, 0, 0x60, 1, i32, 1, i32, 0x60, 2, i32, i32, 1, i32, 0x60, 2, i32, i32, 0), // types of the four functions
		section(3, 4, 0, 1, 2, 3), // functions
		section(5, 1, 0, 1),       // one page of memory
		section(7, exports...),
		section(10, code...),
	} {
		out = append(out, s...)
	}
	return out
}
