/** Marks the records by which a producer shuts out late bytes of its own past: readers pass over them. */

export const fenceHeader = 'flotilla-fence'

const fenceName = Buffer.from(fenceHeader)

/** True for the headers, as the broker has them, of a record that is only a fence. */
export function isFence(headers: readonly (readonly [Buffer | null, Buffer | null])[]): boolean {
  return headers.some(([name]) => name?.length === fenceName.length && name.equals(fenceName))
}
