/** `flotilla doctor`: what is configured, reachable and wrong, and what to do. */

import type { Command as Program } from 'commander'
import { plural } from '#lib/plural.ts'
import type { Shown } from '#operations/action.ts'
import { doctorOperation } from '#operations/doctor/doctor.ts'
import { checkEnvironment } from '#operations/doctor/environment.ts'
import { type Check, failedCheck } from '#operations/doctor/ping.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { type Cli, describe, exitRefused, withWide } from '../cli.ts'
import { execute } from '../execute.ts'
import { createOutput, printResult } from '../output.ts'

/** Opening waits for engines that are away; the doctor reports them instead. */
const openTimeoutMs = 15_000

export function registerDoctor(program: Program, cli: Cli): void {
  const doctor = program
    .command('doctor')
    .description('check settings, engines and files: what is wrong, what to do')
  doctor.option('--all', 'show the checks that are well, too')
  describe(withWide(doctor), 'flotilla doctor').action(async ({ json, all, wide }: DoctorOptions) => {
    const { checks, openable } = await checkEnvironment(cli.env, { services, migrations: migrationFolders })
    if (openable) checks.push(...(await checkPlatform(cli)))
    const failed = checks.filter((check) => check.status === 'fail').length
    printResult(json, { ok: failed === 0, checks }, () => render(checks, all), { wide })
    if (failed > 0) cli.exitCode = exitRefused
  })
}

interface DoctorOptions {
  json?: boolean
  all?: boolean
  wide?: boolean
}

async function checkPlatform(cli: Cli): Promise<Check[]> {
  const signal = AbortSignal.any([cli.signal, AbortSignal.timeout(openTimeoutMs)])
  try {
    return await execute(doctorOperation, {}, { env: cli.env, output: createOutput(() => {}), signal })
  } catch (error) {
    return [failedCheck('engines', error, 'Correct what it names, then run the doctor again.')]
  }
}

const signs = { ok: 'ok', warn: 'WARN', fail: 'FAIL' }

/** A sentence, and the checks that are not well. */
function render(checks: Check[], all = false): Shown {
  const ill = checks.filter(({ status }) => status !== 'ok')
  const counted = plural(checks.length, 'check')
  const sentence =
    ill.length === 0 ? `All is well: ${counted}.` : `${ill.length} of ${counted} found something.`
  const shown = all ? checks : ill
  return shown.length === 0 ? sentence : [sentence, '', tableOf(shown)]
}

/** A hint must not be cut. */
function tableOf(checks: Check[]): Shown {
  const rows = checks.flatMap(({ check, status, found, advice }) => {
    const [first = '', ...more] = found.split('\n')
    const further = advice ? [...more, `-> ${advice}`] : more
    return [[signs[status], check, first], ...further.map((text) => ['', '', text])]
  })
  return { head: ['', 'check', 'found'], rows, wrap: true }
}
