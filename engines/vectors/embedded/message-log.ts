/** What happens in the thread is told to the main thread, which has the log. */

export type LogLevel = 'info' | 'warn' | 'error'
export type MessageLog = (level: LogLevel, message: string, fields?: Record<string, unknown>) => void
