/** The records that operators gave up, read from the rows of the targets, and only while some head waits. */

import type { SqlExecutor } from '#engines/relational/port.ts'

export class Skips {
  readonly #through = new Map<string, { partition: number; offset: number }>()
  readonly #relational: SqlExecutor

  constructor(relational: SqlExecutor) {
    this.#relational = relational
  }

  /** True when the record at this place was given up. */
  covers(target: string, partition: number, offset: number): boolean {
    const through = this.#through.get(target)
    return through !== undefined && through.partition === partition && offset <= through.offset
  }

  /** Reads the rows of these targets; returns the targets whose row changed. */
  async refresh(targets: string[]): Promise<string[]> {
    if (targets.length === 0) return []
    const { rows } = await this.#relational.query<{ name: string; partition: number; through: string }>(
      `select name, partition, skip_through::text as through from platform.webhook_targets
       where name = any($1::text[]) and skip_through is not null`,
      [targets],
    )
    const changed: string[] = []
    for (const { name, partition, through } of rows) {
      const known = this.#through.get(name)
      const offset = Number(through)
      if (known?.partition === partition && known.offset >= offset) continue
      this.#through.set(name, { partition, offset })
      changed.push(name)
    }
    return changed
  }
}
