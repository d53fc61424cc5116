/** Marks the records by which a producer shuts out late bytes of its own past: readers pass over them. */

export const fenceHeader = 'flotilla-fence'
