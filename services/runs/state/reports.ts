/** Reads reports to AXON. */

import type { SqlExecutor } from '#engines/relational/port.ts'

export interface Report {
  /** The id of the run that it is about. */
  reportId: string
  agent: string
  status: string
  [key: string]: unknown
}

/** The reports that these runs bring, in their order. */
export async function readReports(executor: SqlExecutor, reportRunIds: string[]): Promise<(Report | null)[]> {
  const { rows } = await executor.query<{ id: string; body: Report }>(
    'select report_run_id as id, body from platform.run_reports where report_run_id = any($1::text[])',
    [reportRunIds],
  )
  const bodies = new Map(rows.map(({ id, body }) => [id, body]))
  return reportRunIds.map((id) => bodies.get(id) ?? null)
}
