/** The schema registry: gives every version of a subject's Avro schema a number that travels with each record. */

import type { Closeable } from '#lib/resource.ts'

export interface SchemaRegistry extends Closeable {
  readonly driver: 'confluent' | 'folder'
  /**
   * The id of `schema` (Avro JSON text) under `subject`; registers it when it is new and BACKWARD compatible. Throws
   * AppError `incompatible_schema` when it is not, `registry_unavailable` when the registry is away.
   */
  register(subject: string, schema: string): Promise<number>
  /** The schema text of an id; throws AppError `not_found` for an unknown one. Answers are kept: ids never change. */
  schemaById(id: number): Promise<string>
  ping(timeoutMs?: number): Promise<void>
}
