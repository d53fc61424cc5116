/** Reads reports to AXON. */

import type { SqlExecutor } from '#engines/relational/port.ts'

export interface Report {
  /** The id of the run that it is about. */
  reportId: string
  agent: string
  status: string
  [key: string]: unknown
}

/** The report that a run brings. */
export async function readReport(executor: SqlExecutor, reportRunId: string): Promise<Report | null> {
  const { rows } = await executor.query<{ body: Report }>(
    'select body from platform.run_reports where report_run_id = $1',
    [reportRunId],
  )
  return rows[0]?.body ?? null
}

/** By state: pending, delivered, undelivered. */
export async function countReports(executor: SqlExecutor): Promise<Record<string, number>> {
  const { rows } = await executor.query<{ state: string; count: number }>(
    'select state, count(*) as count from platform.run_reports group by state',
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}
