/** The checks of imports and sizes find what they are there to find. */

import { describe, expect, it } from 'vitest'
import { boundaryFaults, circlesOf } from '../../../scripts/boundaries.ts'
import { sizeFaults } from '../../../scripts/sizes.ts'

describe('the boundary check', () => {
  const breaks = [
    ['lib/a.ts', "import { x } from '#runtime/publish/messages.ts'"],
    ['packages/client/src/a.ts', "import { x } from '#lib/errors.ts'"],
    ['topics/a.ts', "import type { x } from '#engines/vectors/port.ts'"],
    [
      'engines/vectors/qdrant.ts',
      "import { x } from '../event-log/port.ts'\nimport y from '../event-log/kafka.ts'",
    ],
    ['runtime/a.ts', "import { x } from '#services/index.ts'"],
    ['runtime/a.ts', "import { openKafkaLog } from '#engines/event-log/kafka.ts'"],
    ['services/records/a.ts', "import { x } from '#engines/vectors/qdrant.ts'"],
    ['services/records/a.ts', "import { x } from '../vectors/gateway/service.ts'"],
    ['services/records/a.ts', "import { x } from '#operations/lag.ts'"],
    ['services/access/a.ts', "import { x } from '#services/vectors/gateway/gateway.ts'"],
    ['services/nobody-knows/a.ts', 'const a = 1'],
    ['elsewhere/a.ts', 'const a = 1'],
    ['operations/a.ts', "import { x } from '#cli/output.ts'"],
    ['services/records/a.ts', "import { x } from '#engines/open.ts'"],
    ['services/records/a.ts', "await import('#cli/main.ts')"],
    ['runtime/a.ts', "new Worker(new URL('../services/records/a.ts', import.meta.url))"],
    ['runtime/a.ts', 'const home = process.env.HOME'],
    ['packages/client/src/a.ts', "await import('#stidx/index-file.ts')"],
    ['packages/stidx/src/a.ts', "import { AppError } from '#lib/errors.ts'"],
    ['packages/stidx/src/a.ts', "import { SingleBar } from 'cli-progress'"],
    ['packages/stidx/src/a.ts', 'const file = process.env.STIDX_INDEX'],
  ] as const
  it.each(breaks)('refuses %s: %s', (file, text) => {
    expect(boundaryFaults(file, text)).toHaveLength(1)
  })

  const keeps = [
    ['runtime/start/start.ts', "import { openEngines } from '#engines/open.ts'"],
    ['engines/open.ts', "import { openKafkaLog } from './event-log/kafka.ts'"],
    [
      'services/records/a.ts',
      "import type { EventLog } from '#engines/event-log/port.ts'\nimport './routes.ts'",
    ],
    ['services/index.ts', "import { hub } from './records/service.ts'"],
    ['services/records/a.ts', "import { x } from '#services/access/agents/agents.ts'"],
    ['services/access/audit/a.ts', "import { x } from '#services/access/agents/agents.ts'"],
    ['services/main-api/a.ts', "import { x } from '#operations/lag.ts'"],
    ['operations/a.ts', "import { x } from '#services/webhooks/targets/targets-file.ts'"],
    ['cli/main.ts', "import { services } from '#services/index.ts'\nconst home = process.env.HOME"],
    ['test/flow/a.test.ts', "import { openKafkaLog } from '#engines/event-log/kafka.ts'"],
    ['lib/a.ts', "import pino from 'pino'"],
    ['packages/stidx/src/a.ts', "import { readSync } from 'node:fs'\nimport './analysis/analyzer.ts'"],
    ['packages/stidx/src/command/index-jsonl.ts', "import { SingleBar } from 'cli-progress'"],
  ] as const
  it.each(keeps)('allows %s: %s', (file, text) => {
    expect(boundaryFaults(file, text)).toEqual([])
  })
})

describe('the check for circles of imports', () => {
  it('names the files of each circle, also of type-only imports, and no others', () => {
    const files = new Map([
      ['lib/a.ts', "import type { B } from './b.ts'"],
      ['lib/b.ts', "import { c } from './c.ts'"],
      ['lib/c.ts', "import { a } from '#lib/a.ts'"],
      ['lib/d.ts', "import { a } from './a.ts'"],
      ['lib/own.ts', "import { own } from './own.ts'"],
    ])
    expect(circlesOf(files)).toEqual([['lib/a.ts', 'lib/b.ts', 'lib/c.ts'], ['lib/own.ts']])
  })
})

describe('the size check', () => {
  const long = (lines: number) =>
    `const a = 1\nfunction long() {\n${Array.from({ length: lines - 2 }, (_, i) => `  use(${i} as number)`).join('\n')}\n}\n`

  it('names a function that is too long, with its line', () => {
    expect(sizeFaults('lib/a.ts', long(120))).toEqual([])
    expect(sizeFaults('lib/a.ts', long(121))).toEqual(['lib/a.ts:2 long has 121 lines, at most 120'])
  })

  it('counts everything inside a function for it, nested functions included', () => {
    const inner = Array.from({ length: 58 }, (_, i) => `    use(${i})`).join('\n')
    const text = `function create() {\n  return {\n    a() {\n${inner}\n    },\n    b() {\n${inner}\n    },\n  }\n}\n`
    expect(sizeFaults('lib/a.ts', text)).toEqual(['lib/a.ts:1 create has 124 lines, at most 120'])
  })

  it('lets an exception be as long as it was, and demands that its number shrinks with it', () => {
    const exceptions = { 'lib/a.ts long': 130 }
    expect(sizeFaults('lib/a.ts', long(130), exceptions)).toEqual([])
    expect(sizeFaults('lib/a.ts', long(131), exceptions)).toEqual([
      'lib/a.ts:2 long has 131 lines, at most 130',
    ])
    expect(sizeFaults('lib/a.ts', long(125), exceptions)).toEqual([
      'lib/a.ts:2 long has 125 lines: lower its exception',
    ])
    expect(sizeFaults('lib/a.ts', long(90), exceptions)).toEqual([
      'lib/a.ts:2 long has 90 lines: remove its exception',
    ])
  })

  it('lets a suite be longer than a source file', () => {
    const text = '// line\n'.repeat(350)
    expect(sizeFaults('test/unit/a.test.ts', text)).toEqual([])
    expect(sizeFaults('lib/a.ts', text)).toEqual(['lib/a.ts has 350 lines, at most 300'])
  })
})
