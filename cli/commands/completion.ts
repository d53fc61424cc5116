/** `flotilla completion`: the script for bash, zsh or fish that completes commands, options and their values. */

import { Argument, type Command as Program } from 'commander'
import { helpTexts } from '#stidx/command/help.ts'
import { describe } from '../cli.ts'
import { printJson, write } from '../output.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** A command with what may follow it. `path` is empty for `flotilla` itself, else for example `/agents/list`. */
interface Place {
  path: string
  /** Commands below it, and values of its arguments where they are known. */
  words: string[]
  options: OptionWord[]
}

interface OptionWord {
  flag: string
  takesValue: boolean
  /** Empty where they are not known: then a value is completed as a file. */
  values: readonly string[]
}

/** `whole` gives the program with every command; `singulars` are nouns and the plurals that they mean. */
export function registerCompletion(
  program: Program,
  whole: () => Promise<Program>,
  singulars: Readonly<Record<string, string>>,
): void {
  const completion = program
    .command('completion')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .description('print a completion script for a shell')
  describe(completion, 'source <(flotilla completion bash)\nflotilla completion fish | source').action(
    async (shell: Shell, { json }: { json?: boolean }) => {
      const script = completionScript(shell, await whole(), singulars)
      if (json) printJson({ shell, script })
      else write(script)
    },
  )
}

function completionScript(
  shell: Shell,
  program: Program,
  singulars: Readonly<Record<string, string>>,
): string {
  const places = placesOf(program, '')
  const steps = new Map(places.slice(1).map(({ path }) => [path, [path]]))
  for (const [singular, plural] of Object.entries(singulars)) steps.get(`/${plural}`)?.push(`/${singular}`)
  return { bash, zsh, fish }[shell](places, steps)
}

function placesOf(command: Program, path: string): Place[] {
  const known = command.createHelp().visibleOptions(command)
  const options = known.map(({ long, required, optional, argChoices }) => ({
    flag: long ?? '',
    takesValue: required || optional,
    values: argChoices ?? [],
  }))
  const below = command.commands.map((one) => one.name())
  const values = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])
  const others = otherOptions(path.slice(1))
  const place = { path, words: [...below, ...values], options: [...options, ...others] }
  const places = command.commands.map((one) => placesOf(one as Program, `${path}/${one.name()}`))
  return [place, ...places.flat()]
}

/** Names of commands that were typed, alternatives by what they mean. */
type Steps = ReadonlyMap<string, string[]>

const list = (words: readonly string[]) => words.join(' ')

/** The arms of `case` that follow the words that were typed, as bash and zsh have them. */
function stepArms(steps: Steps): string {
  return [...steps].map(([path, typed]) => `      ${typed.join('|')}) at=${path} ;;`).join('\n')
}

/** The arms for the value of an option: what is known, or nothing, so that files are offered. */
function valueArms(places: Place[]): string {
  const arms = places.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flag, values }) => `    '${path} ${flag}') offered='${list(values)}' value=yes ;;`),
  )
  return arms.join('\n')
}

function wordArms(places: Place[]): string {
  const flags = ({ options }: Place) => list(options.map(({ flag }) => flag))
  return places
    .map((place) => `      '${place.path}') offered='${list(place.words)}' flags='${flags(place)}' ;;`)
    .join('\n')
}

/** What both shells do: `typed` is an array of the words before the cursor, `before` the last of them, `now` at it. */
function choose(places: Place[], steps: Steps): string {
  return `  local word at='' offered='' flags='' value=''
  for word in "\${typed[@]}"; do
    case "$at/$word" in
${stepArms(steps)}
    esac
  done
  case "$at $before" in
${valueArms(places)}
  esac
  if [ -z "$value" ]; then
    case "$at" in
${wordArms(places)}
    esac
    case "$now" in
      -*) offered=$flags ;;
    esac
  fi`
}

function bash(places: Place[], steps: Steps): string {
  return `# Completion of flotilla in bash: source <(flotilla completion bash)
_flotilla() {
  local now=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]}
  local typed=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
${choose(places, steps)}
  COMPREPLY=($(compgen -W "$offered" -- "$now"))
}
complete -o bashdefault -o default -F _flotilla flotilla
`
}

function zsh(places: Place[], steps: Steps): string {
  return `#compdef flotilla
# Completion of flotilla in zsh: source <(flotilla completion zsh), or as _flotilla in a folder of $fpath
_flotilla() {
  local now=\${words[CURRENT]} before=\${words[CURRENT-1]}
  local -a typed=("\${(@)words[2,CURRENT-1]}")
${choose(places, steps)}
  if [ -n "$offered" ]; then compadd -- \${=offered}; else _files; fi
}
if [ "$funcstack[1]" = _flotilla ]; then _flotilla "$@"; else compdef _flotilla flotilla; fi
`
}

function fish(places: Place[], steps: Steps): string {
  const arms = [...steps]
    .map(([path, typed]) => `      case ${list(typed)}\n        set at ${path}`)
    .join('\n')
  const lines = places.flatMap(({ path, words, options }) => {
    const here = `complete -c flotilla -n 'test "$(__flotilla_at)" = "${path}"'`
    const offered = words.length > 0 ? [`${here} -f -a '${list(words)}'`] : []
    return [
      ...offered,
      ...options.map(({ flag, takesValue, values }) => {
        const value = values.length > 0 ? ` -x -a '${list(values)}'` : takesValue ? ' -r' : ''
        return `${here} -l ${flag.replace(/^--/, '')}${value}`
      }),
    ]
  })
  return `# Completion of flotilla in fish: flotilla completion fish | source
function __flotilla_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    switch $at/$word
${arms}
    end
  end
  echo $at
end
${lines.join('\n')}
`
}

/** Local search has a help text of its own: each of its options begins a line. */
function otherOptions(command: string): OptionWord[] {
  const lines = (command === 'stats' ? '' : (helpTexts[command] ?? '')).matchAll(
    /^ {2}(--[a-z-]+)( [A-Z]+)?/gm,
  )
  return [...lines].map(([, flag = '', value]) => ({ flag, takesValue: value !== undefined, values: [] }))
}
