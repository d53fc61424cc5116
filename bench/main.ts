/** `npm run bench`: lists the benches; `npm run bench -- NAME [--json] [--check] [--save]` runs one. */

import { passes } from './bench.ts'
import { benches } from './list.ts'
import { machineFacts, renderTable, saveMarkdown } from './table.ts'

const help = `Usage: npm run bench -- NAME [--json] [--check] [--save]

  --json   print one JSON document
  --check  exit 1 when a row misses its bar
  --save   keep the table in docs/benchmarks.md

Benches:
${benches.map((bench) => `  ${bench.name.padEnd(10)} ${bench.purpose}`).join('\n')}

Example: npm run bench -- search --check`

async function main(args: string[]): Promise<number> {
  const flags = new Set(args.filter((arg) => arg.startsWith('--')))
  const name = args.find((arg) => !arg.startsWith('--'))
  const unknown = [...flags].filter((flag) => !['--json', '--check', '--save', '--help'].includes(flag))
  if (unknown.length > 0) return wrongUse(`unknown option ${unknown.join(' ')}`)
  if (!name || flags.has('--help')) {
    console.log(help)
    return 0
  }
  const bench = benches.find((candidate) => candidate.name === name)
  if (!bench) return wrongUse(`there is no bench named ${name}`)
  const rows = await bench.run((progress) => process.stderr.write(`${progress}\n`))
  if (flags.has('--json')) {
    const results = rows.map((row) => ({ ...row, ...(row.bar ? { passed: passes(row) } : {}) }))
    console.log(JSON.stringify({ bench: name, machine: machineFacts(), rows: results }))
  } else {
    console.log(`${machineFacts()}\n${renderTable(rows)}`)
  }
  if (flags.has('--save'))
    saveMarkdown(new URL('../docs/benchmarks.md', import.meta.url), name, bench.purpose, rows)
  return flags.has('--check') && rows.some((row) => row.bar && !passes(row)) ? 1 : 0
}

function wrongUse(fault: string): number {
  console.error(`${fault}\n\n${help}`)
  return 2
}

process.exitCode = await main(process.argv.slice(2))
