/** Loaded before a command (`node --require`): when the process ends, what it took goes to the file named in USAGE_FILE. */

const { existsSync, readFileSync, writeFileSync } = require('node:fs')

process.on('exit', () => {
  const { user, system } = process.cpuUsage()
  const usage = {
    wallMs: process.uptime() * 1000,
    cpuMs: (user + system) / 1000,
    rssBytesMax: residentBytesMax(),
  }
  writeFileSync(process.env.USAGE_FILE, JSON.stringify(usage))
})

/** Linux starts `maxRSS` with what the parent held when it forked; VmHWM is of this process alone. */
function residentBytesMax() {
  const status = existsSync('/proc/self/status') ? readFileSync('/proc/self/status', 'utf8') : ''
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]
  return (kibibytes ? Number(kibibytes) : process.resourceUsage().maxRSS) * 1024
}
