/** WebAssembly as Node has it: the few parts of it that are used here, whose types come only with those of browsers. */

interface Parts {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object) => { exports: unknown }
  RuntimeError: new (message?: string) => Error
}

export const webAssembly = (globalThis as unknown as { WebAssembly: Parts }).WebAssembly

export interface WasmMemory {
  readonly buffer: ArrayBuffer
  /** In pages of 64 KiB. */
  grow(pages: number): number
}
