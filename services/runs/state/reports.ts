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
  return (await readReports(executor, [reportRunId]))[0]!
}

/** As `readReport` for each, in one statement. */
export async function readReports(executor: SqlExecutor, reportRunIds: string[]): Promise<(Report | null)[]> {
  const { rows } = await executor.query<{ id: string; body: Report }>(
    'select report_run_id as id, body from platform.run_reports where report_run_id = any($1::text[])',
    [reportRunIds],
  )
  const bodies = new Map(rows.map(({ id, body }) => [id, body]))
  return reportRunIds.map((id) => bodies.get(id) ?? null)
}

/** By state: pending, delivered, undelivered. */
export async function countReports(executor: SqlExecutor): Promise<Record<string, number>> {
  const { rows } = await executor.query<{ state: string; count: number }>(
    'select state, count(*) as count from platform.run_reports group by state',
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}
