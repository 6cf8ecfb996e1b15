from .report import AuditReport as AuditReport, AuditResult as AuditResult, audit_environment as audit_environment
