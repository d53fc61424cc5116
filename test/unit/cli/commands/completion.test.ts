/** What a shell offers after Tab: the scripts are run in the shells themselves, as far as they are installed. */

import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runCommand } from '../../../support/command-line.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

/** How each shell is asked for what it offers for `line`, with the script in `file`; one word a line. */
const asked = {
  bash: (file: string, line: string) => [
    '-c',
    `source ${file}
     COMP_WORDS=(${quoted(line)}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _flotilla
     [ \${#COMPREPLY[@]} -gt 0 ] || compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"
     printf '%s\\n' "\${COMPREPLY[@]}"`,
  ],
  // Without a terminal zsh has no completion: what the script calls is put in its place, and chooses as zsh does.
  zsh: (file: string, line: string) => [
    '-fc',
    `compdef() { : }; source ${file}
     compadd() { shift; for word in "$@"; do [[ $word == \${words[CURRENT]}* ]] && print -r -- $word; done }
     _files() { print -rl -- \${words[CURRENT]}*(N) }
     words=(${quoted(line)}); CURRENT=\${#words}; _flotilla; true`,
  ],
  fish: (file: string, line: string) => ['--no-config', '-c', `source ${file}; complete -C '${line}'`],
}

function quoted(line: string): string {
  return line
    .split(' ')
    .map((word) => `"${word}"`)
    .join(' ')
}

const installed = (shell: string) => spawnSync(shell, ['--version']).status === 0

describe.each(Object.keys(asked) as (keyof typeof asked)[])('flotilla completion %s', (shell) => {
  it.skipIf(!installed(shell))(
    'offers commands, options, their values, and files',
    async () => {
      const folder = temporaryFolder()
      const file = join(folder, 'script')
      writeFileSync(file, (await runCommand(['completion', shell], {})).stdout)
      writeFileSync(join(folder, 'event.json'), '{}')
      const offered = (line: string) => {
        const text = execFileSync(shell, asked[shell](file, line), { cwd: folder, encoding: 'utf8' })
        const words = text.split('\n').map((word) => word.split('\t')[0])
        return words.filter((word) => word !== '').sort()
      }
      expect(offered('flotilla ag')).toEqual(['agent-keys', 'agents'])
      expect(offered('flotilla ')).toEqual(
        expect.arrayContaining(['start', 'search', 'webhooks', 'completion']),
      )
      expect(offered('flotilla dead-letter re')).toEqual(['replay'])
      expect(offered('flotilla webhooks dead-letters ')).toEqual(['discard', 'list', 'replay', 'show'])
      expect(offered('flotilla agents update scout --b')).toEqual(['--burst'])
      expect(offered('flotilla agents provision --access ')).toEqual(['admin', 'member', 'viewer'])
      expect(offered('flotilla agents tier scout inf')).toEqual(['infra-architect'])
      expect(offered('flotilla search --sc')).toEqual(['--scoring'])
      expect(offered('flotilla webhooks fire --file eve')).toEqual(['event.json'])
    },
    120_000,
  )
})

it('is wrong use for a shell that it does not know', async () => {
  expect((await runCommand(['completion', 'tcsh'], {})).code).toBe(2)
})
