/** A point's payload in, its JSON text out, or what is wrong with it. */

const payloadBytesMax = 64 * 1024
/** Deep enough for any record; engines refuse nesting somewhere beyond a hundred levels. */
const depthMax = 64

export type PackedPayload = { text: string } | { fault: string; path?: string }

export function packPayload(value: unknown): PackedPayload {
  if (value === undefined) return { text: '{}' }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { fault: 'must be an object' }
  }
  const fault = faultWithin(value)
  if (fault) return { fault }
  const text = JSON.stringify(value)
  if (text.length > payloadBytesMax || Buffer.byteLength(text) > payloadBytesMax) {
    return { fault: `must have at most ${payloadBytesMax} bytes as JSON` }
  }
  return { text }
}

/** JSON.parse turns 1e999 into Infinity, which JSON cannot write again. */
function faultWithin(root: object): string | undefined {
  let level: object[] = [root]
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > depthMax) return `must not be nested deeper than ${depthMax} levels`
    const next: object[] = []
    for (const item of level) {
      for (const child of Object.values(item)) {
        if (typeof child === 'object' && child !== null) next.push(child)
        else if (typeof child === 'number' && !Number.isFinite(child)) {
          return 'must hold numbers that fit a double only'
        }
      }
    }
    level = next
  }
  return undefined
}
