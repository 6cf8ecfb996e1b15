from .database import Database as Database
