/** `npm run bench`: lists the benches; `npm run bench -- NAME [--json] [--check] [--save]` runs one. */

import { type Bench, OptionFault, passes } from './bench.ts'
import { benches } from './list.ts'
import { machineFacts, renderTable, saveMarkdown } from './table.ts'

const help = `Usage: npm run bench -- NAME [--json] [--check] [--save]

  --json   print one JSON document
  --check  exit 1 when a row misses its bar
  --save   keep the table in docs/benchmarks.md, or in the page of the bench

Benches:
${benches.map(describe).join('\n')}

Example: npm run bench -- search --check`

function describe({ name, purpose, options = {} }: Bench): string {
  const lines = Object.entries(options).map(([option, takes]) => `\n${' '.repeat(13)}--${option} ${takes}`)
  return `  ${name.padEnd(10)} ${purpose}${lines.join('')}`
}

async function main(args: string[]): Promise<number> {
  const { flags, values, names } = readArguments(args)
  const [name] = names
  if (!name || flags.has('--help')) {
    console.log(help)
    return 0
  }
  const bench = benches.find((candidate) => candidate.name === name)
  if (!bench) return wrongUse(`there is no bench named ${name}`)
  const unknown = [...flags].filter((flag) => !['--json', '--check', '--save'].includes(flag))
  unknown.push(
    ...Object.keys(values)
      .filter((option) => !(option in (bench.options ?? {})))
      .map((option) => `--${option}`),
  )
  if (unknown.length > 0) return wrongUse(`unknown option ${unknown.join(' ')}`)
  const isTrial = Object.keys(values).length > 0
  if (flags.has('--save') && isTrial)
    return wrongUse('--save keeps what a bench measures without further options')
  const result = await bench.run((progress) => process.stderr.write(`${progress}\n`), values)
  const { rows, more } = Array.isArray(result) ? { rows: result } : result
  if (flags.has('--json')) {
    const results = rows.map((row) => ({ ...row, ...(row.bar ? { passed: passes(row) } : {}) }))
    console.log(JSON.stringify({ bench: name, machine: machineFacts(), rows: results }))
  } else {
    console.log(`${machineFacts()}\n${renderTable(rows)}`)
    if (more !== undefined) console.log(`\n${more}`)
  }
  if (flags.has('--save')) {
    const page = new URL(`../docs/${bench.page ?? 'benchmarks.md'}`, import.meta.url)
    saveMarkdown(page, name, bench.purpose, rows, more)
  }
  return flags.has('--check') && rows.some((row) => row.bar && !passes(row)) ? 1 : 0
}

/** Every option of a bench takes a value: `--minutes 3`. */
function readArguments(args: string[]) {
  const valued = new Set(benches.flatMap(({ options = {} }) => Object.keys(options)))
  const flags = new Set<string>()
  const values: Record<string, string> = {}
  const names: string[] = []
  for (let at = 0; at < args.length; at++) {
    const arg = args[at]!
    if (valued.has(arg.slice(2)) && arg.startsWith('--')) values[arg.slice(2)] = args[++at] ?? ''
    else if (arg.startsWith('--')) flags.add(arg)
    else names.push(arg)
  }
  return { flags, values, names }
}

function wrongUse(fault: string): number {
  console.error(`${fault}\n\n${help}`)
  return 2
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  if (error instanceof OptionFault) return wrongUse(error.message)
  throw error
})
