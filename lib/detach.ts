/** Detaches buffers: their memory is given back at once, where the garbage collector would do it later. */

/**
 * For bytes that nobody looks at any more. The collector counts memory of this kind: megabytes of it for each request
 * make it go through all objects of the thread again and again. Bytes that share their memory with others are left
 * alone, as pieces of Node's pool do.
 */
export function detach(bytes: ArrayBufferView): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength) buffer.transfer(0)
}
